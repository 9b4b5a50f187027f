"""Every act on objects, once: the doors adapt protocols to these functions and do nothing else."""
