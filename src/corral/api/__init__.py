"""The HTTP door: it adapts requests to verbs, and nothing else."""
