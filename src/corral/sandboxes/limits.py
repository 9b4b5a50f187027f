"""What may be ordered, and how the sizes of a sandbox's memory file systems fit its memory."""

from dataclasses import asdict

from corral.base.paths import own_directory

from ._base import MIB, Limits, SandboxError, SandboxSpec


def fitted(limits: Limits) -> dict[str, int]:
    """Sizes of the memory file systems by mount point: as ordered, and all together at most half of the memory.

    They count as memory of the sandbox: full ones that take it all would make every later command die for want of it.
    """
    sizes = {"/tmp": limits.tmp, "/dev/shm": limits.shm, "/home/agent": 64 * MIB, "/var/tmp": 16 * MIB}
    budget = limits.memory // 2
    total = sum(sizes.values())
    return sizes if total <= budget else {path: max(4096, size * budget // total) for path, size in sizes.items()}


def check(spec: SandboxSpec) -> None:
    """Raises SandboxError naming the field, the rule and the fix."""
    try:
        own_directory(spec.working_dir)
    except ValueError as error:
        raise SandboxError(f"working_dir {spec.working_dir!r} {error}") from None
    if spec.image != "host":
        raise SandboxError(f"image {spec.image!r}: this driver knows only 'host', the programs of this machine")
    for name, value in asdict(spec.limits).items():
        if value <= 0:
            raise SandboxError(f"limits.{name}: must be more than 0, not {value}")
    if spec.limits.memory < 16 * MIB:
        raise SandboxError("limits.memory: at least 16 MiB are needed to run a command")
    if spec.unattended_seconds <= 0:
        raise SandboxError("unattended_seconds: must be more than 0")
