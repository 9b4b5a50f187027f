"""The built-in small language model: its weights, the worker process that runs it, and the way it is prompted.

The rest of the platform reaches it through `providers/local.py` and, to fetch weights ahead of time, `weights`.
"""
