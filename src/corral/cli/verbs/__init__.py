"""The verbs, one file each: the file's name is the verb, the first line of its docstring is its help.

A verb module has `command`, a function with Typer's annotations, or `app`, a Typer with verbs of its own. It is
imported when it is run, not before.
"""
