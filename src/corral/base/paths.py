"""Paths inside a sandbox, which are the same rule for whoever names one."""

_SYSTEM = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "tmp", "usr", "var"}
)


def own_directory(path: str) -> str:
    """The path, if a sandbox can have its working directory there. Raises ValueError with the rule."""
    parts = path.split("/")
    if not path.startswith("/") or path == "/" or any(part in ("", ".", "..") for part in parts[1:]) or "\x00" in path:
        raise ValueError("is not a clean absolute path, such as /workspace")
    if parts[1] in _SYSTEM:
        raise ValueError(f"lies in /{parts[1]}, which belongs to the system; use a path such as /workspace")
    return path
