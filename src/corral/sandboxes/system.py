"""What a sandbox sees of this machine's system: its program directories, and a copy of the harmless part of /etc.

The copy is made by an allow-list, of files that everybody may read: host configuration often carries credentials of
package indexes, mail or directories, which no command needs.
"""

import fnmatch
import hashlib
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

UID = 1000
"""Of the user in the sandbox, `agent`."""
TOP = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = (
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "DIR_COLORS",
    "fedora-release",
    "fonts",
    "gai.conf",
    "host.conf",
    "ImageMagick-*",
    "inputrc",
    "java-*",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "login.defs",
    "lsb-release",
    "magic",
    "magic.mime",
    "mailcap",
    "manpath.config",
    "mime.types",
    "mtab",
    "networks",
    "os-release",
    "perl",
    "php",
    "pki",
    "profile",
    "protocols",
    "python3",
    "python3.*",
    "redhat-release",
    "rpc",
    "services",
    "sgml",
    "shells",
    "skel",
    "ssl",
    "system-release",
    "terminfo",
    "texmf",
    "timezone",
    "vim",
    "xattr.conf",
    "xml",
)
_GENERATED = {
    "passwd": f"root:x:0:0:root:/root:/bin/sh\nagent:x:{UID}:{UID}:agent:/home/agent:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    "group": f"root:x:0:\nagent:x:{UID}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "hostname": "sandbox\n",
    "resolv.conf": "# The sandbox has no DNS.\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
    "protocols: files\nservices: files\n",
}


@dataclass(frozen=True)
class _Item:
    path: str
    """Relative to /etc."""
    link: str | None = None
    data: bytes | None = None
    executable: bool = False


def binds() -> list[str]:
    """The bwrap arguments that show the program directories, read-only."""
    arguments = []
    for name in TOP:
        path = Path("/", name)
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    return arguments


def _collect(source: Path, path: str, items: list[_Item]) -> None:
    try:
        status = (source / path).lstat()
        if stat.S_ISLNK(status.st_mode):
            items.append(_Item(path, link=str((source / path).readlink())))
        elif not status.st_mode & stat.S_IROTH:
            return
        elif stat.S_ISDIR(status.st_mode):
            items.append(_Item(path))
            for child in sorted((source / path).iterdir()):
                _collect(source, f"{path}/{child.name}", items)
        elif stat.S_ISREG(status.st_mode):
            data = (source / path).read_bytes()
            items.append(_Item(path, data=data, executable=bool(status.st_mode & stat.S_IXOTH)))
    except OSError:
        return  # not for us to read, or gone: the sandbox does without


def _digest(items: list[_Item]) -> str:
    total = hashlib.sha256()
    for item in items:
        total.update(repr(item).encode("utf-8", "surrogateescape"))
    return total.hexdigest()[:16]


def _write(items: list[_Item], target: Path) -> None:
    target.mkdir(mode=0o755)
    for item in items:
        path = target / item.path
        if item.link is not None:
            path.symlink_to(item.link)
        elif item.data is None:
            path.mkdir()
        else:
            path.write_bytes(item.data)
            path.chmod(0o555 if item.executable else 0o444)
    for directory, _, _ in os.walk(target):
        Path(directory).chmod(0o755)


def copy_etc(parent: Path, source: Path = Path("/etc")) -> Path:
    """A directory under `parent` to show as /etc; made when this content is new, and never changed after. Blocks."""
    parent.mkdir(mode=0o711, exist_ok=True)
    items = [_Item(name, data=text.encode()) for name, text in _GENERATED.items()]
    for name in sorted(path.name for path in source.iterdir()):
        if name not in _GENERATED and any(fnmatch.fnmatchcase(name, pattern) for pattern in _ETC):
            _collect(source, name, items)
    target = parent / f"etc-{_digest(items)}"
    if not target.exists():
        temporary = parent / f"{target.name}.{os.getpid()}"
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            _write(items, temporary)
            temporary.rename(target)
        except OSError:
            shutil.rmtree(temporary, ignore_errors=True)
            if not target.exists():  # otherwise another platform was as quick
                raise
    return target
