"""Why bwrap cannot make a sandbox on this machine, and what the operator can do about it."""

import os
import sys
from pathlib import Path

OLDEST_KERNEL = (5, 14)
"""First with process limits counted for each user namespace; all else that is used is older."""

CONTAINER = (
    "start the container with --security-opt seccomp=unconfined --security-opt systempaths=unconfined (Kubernetes: "
    "seccompProfile type Unconfined and procMount Unmasked), or use a sandbox driver that needs no namespaces here"
)
APPARMOR = (
    "AppArmor forbids user namespaces to programs without a profile: install the distribution's bubblewrap and its "
    "profile (apt install bubblewrap apparmor-profiles), or set sysctl kernel.apparmor_restrict_unprivileged_userns=0"
)

_TOO_OLD = "this bwrap is too old: install bubblewrap 0.8 or newer, or remove it so that the packaged one is used"
_OTHER = "the message is bwrap's own; `bwrap --ro-bind / / true` shows whether it works at all"


def unsupported(platform: str = sys.platform, release: str = "") -> tuple[str, str] | None:
    """(what is wrong, remedy) when this system cannot work at all."""
    if platform != "linux":
        return f"sandboxes need Linux, and this is {platform}", "run corral on Linux, for example in a virtual machine"
    text = release or os.uname().release
    numbers = tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in text.split("-")[0].split(".")[:2])
    if numbers < OLDEST_KERNEL:
        needed = ".".join(map(str, OLDEST_KERNEL))
        return f"Linux {text} is older than {needed}", f"use a kernel of at least {needed}"
    return None


def remedy(said: str, root: Path = Path("/")) -> str:
    """What to do when bwrap failed and `said` this, judged by what the system under `root` forbids."""
    if "mount namespace" in said:
        return "the platform's directory must be passable for all users (chmod o+x on it and on those above it)"
    if not any(sign in said for sign in ("namespace", "not permitted", "Permission denied", "No space left")):
        return _OTHER if "nknown option" not in said else _TOO_OLD
    for name, bad, fix in (
        ("user/max_user_namespaces", "0", "set sysctl user.max_user_namespaces=15000"),
        ("kernel/unprivileged_userns_clone", "0", "set sysctl kernel.unprivileged_userns_clone=1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", APPARMOR),
    ):
        if _read(root / "proc/sys" / name) == bad:
            return fix
    if (
        (root / ".dockerenv").exists()
        or (root / "run/.containerenv").exists()
        or "KUBERNETES_SERVICE_HOST" in os.environ
    ):
        return CONTAINER
    return (
        "the system forbids user namespaces or mounts to this process: allow them, or run corral where they are allowed"
    )


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
