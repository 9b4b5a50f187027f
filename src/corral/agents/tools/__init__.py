"""What a model can do in its sandbox: one file each, named after the tool."""
