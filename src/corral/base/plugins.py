"""A folder of plug-ins: the file's name is the plug-in's name, so adding a file is the whole registration."""

from functools import cache
from importlib import import_module, metadata
from pkgutil import iter_modules
from types import ModuleType


@cache  # what is installed does not change while we run, and looking takes milliseconds
def names(package: ModuleType) -> tuple[str, ...]:
    """The built-in plug-ins of a package, then those of installed distributions, without importing any."""
    built_in = [m.name for m in iter_modules(package.__path__) if not m.name.startswith("_")]
    return (*built_in, *(e.name for e in metadata.entry_points(group=package.__name__) if e.name not in built_in))


@cache
def load(package: ModuleType, name: str) -> ModuleType:
    """The plug-in module of that name, imported only now. Raises LookupError with the known names."""
    if name not in (known := names(package)):
        raise LookupError(f"{name!r} is not one of {', '.join(sorted(known))}")
    for entry in metadata.entry_points(group=package.__name__, name=name):
        module = entry.load()
        if isinstance(module, ModuleType):
            return module
        raise LookupError(f"the entry point {entry.value!r} of {package.__name__} is not a module")
    return import_module(f"{package.__name__}.{name}")
