"""The durable core: executions that survive the process that runs them. It knows no kind of object by name."""
