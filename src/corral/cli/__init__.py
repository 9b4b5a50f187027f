"""The command line. It speaks HTTP like every other client; only `run` and `up` can start a server."""
