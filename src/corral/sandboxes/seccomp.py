"""The system calls that commands may not make, as a BPF program for `bwrap --seccomp`.

A deny list: agents run arbitrary programs, so what is not listed is allowed. Listed calls fail with EPERM; those that
libraries replace by older ones when the kernel lacks them fail with ENOSYS. Calls of another architecture (i386, x32)
kill the process, since their numbers mean other calls. Arguments are judged where only some are harmful: new namespaces
in clone and unshare, terminal injection in ioctl, and the families of sockets (a network namespace does not confine
AF_VSOCK, and the rest is attack surface of the kernel). Numbers: asm/unistd_64.h and asm-generic/unistd.h of Linux.
"""

import errno
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from ._base import SandboxError

# linux/bpf_common.h and linux/seccomp.h
_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCH, _ARG0, _ARG1 = 0, 4, 16, 24
_X32_BIT = 0x40000000
_NEW_NAMESPACES = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, and NEWTIME of unshare."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK."""

_SAME = {  # calls that are younger than the split of the tables have one number everywhere
    "fsconfig": 431,
    "fsmount": 432,
    "fsopen": 430,
    "fspick": 433,
    "mount_setattr": 442,
    "move_mount": 429,
    "open_tree": 428,
    "open_tree_attr": 467,
    "quotactl_fd": 443,
}
_ENOSYS = {"clone3": 435, "io_uring_enter": 426, "io_uring_register": 427, "io_uring_setup": 425}


@dataclass(frozen=True)
class _Table:
    arch: int
    clone: int
    unshare: int
    ioctl: int
    socket: int
    socketpair: int
    refused: dict[str, int]


_TABLES = {
    "x86_64": _Table(
        arch=0xC000003E,
        clone=56,
        unshare=272,
        ioctl=16,
        socket=41,
        socketpair=53,
        refused={
            "acct": 163,
            "add_key": 248,
            "adjtimex": 159,
            "bpf": 321,
            "chroot": 161,
            "clock_adjtime": 305,
            "clock_settime": 227,
            "delete_module": 176,
            "fanotify_init": 300,
            "finit_module": 313,
            "init_module": 175,
            "ioperm": 173,
            "iopl": 172,
            "kcmp": 312,
            "kexec_file_load": 320,
            "kexec_load": 246,
            "keyctl": 250,
            "lookup_dcookie": 212,
            "migrate_pages": 256,
            "mount": 165,
            "move_pages": 279,
            "name_to_handle_at": 303,
            "nfsservctl": 180,
            "open_by_handle_at": 304,
            "perf_event_open": 298,
            "pivot_root": 155,
            "quotactl": 179,
            "reboot": 169,
            "request_key": 249,
            "setns": 308,
            "settimeofday": 164,
            "swapoff": 168,
            "swapon": 167,
            "sysfs": 139,
            "syslog": 103,
            "umount2": 166,
            "uselib": 134,
            "userfaultfd": 323,
            "ustat": 136,
            "vhangup": 153,
        },
    ),
    "aarch64": _Table(
        arch=0xC00000B7,
        clone=220,
        unshare=97,
        ioctl=29,
        socket=198,
        socketpair=199,
        refused={
            "acct": 89,
            "add_key": 217,
            "adjtimex": 171,
            "bpf": 280,
            "chroot": 51,
            "clock_adjtime": 266,
            "clock_settime": 112,
            "delete_module": 106,
            "fanotify_init": 262,
            "finit_module": 273,
            "init_module": 105,
            "kcmp": 272,
            "kexec_file_load": 294,
            "kexec_load": 104,
            "keyctl": 219,
            "lookup_dcookie": 18,
            "migrate_pages": 238,
            "mount": 40,
            "move_pages": 239,
            "name_to_handle_at": 264,
            "nfsservctl": 42,
            "open_by_handle_at": 265,
            "perf_event_open": 241,
            "pivot_root": 41,
            "quotactl": 60,
            "reboot": 142,
            "request_key": 218,
            "setns": 268,
            "settimeofday": 170,
            "swapoff": 225,
            "swapon": 224,
            "syslog": 116,
            "umount2": 39,
            "userfaultfd": 282,
            "vhangup": 58,
        },
    ),
}

_Instruction = tuple[int, int, int, int]


def _judge(number: int, argument: int, tests: Iterable[int], how: int, *, hit: int, miss: int) -> list[_Instruction]:
    """For one system call: load the low word of an argument, and return `hit` if a test holds, else `miss`."""
    tests = list(tests)
    body: list[_Instruction] = [(_LOAD, 0, 0, argument)]
    body += [(how, len(tests) - i, 0, test) for i, test in enumerate(tests)]
    body += [(_RETURN, 0, 0, miss), (_RETURN, 0, 0, hit)]
    return [(_EQUAL, 0, len(body), number), *body]


def program(machine: str) -> bytes:
    """The BPF program for a machine (`x86_64` or `aarch64`). Raises SandboxError for another."""
    table = _TABLES.get(machine)
    if table is None:
        raise SandboxError(f"no list of system calls for {machine}; sandboxes need x86_64 or aarch64")
    refuse = _ERRNO | errno.EPERM
    code: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, table.arch),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        code += [(_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL)]
    for numbers, error in (((table.refused | _SAME).values(), errno.EPERM), (_ENOSYS.values(), errno.ENOSYS)):
        for number in numbers:
            code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | error)]
    for call in (table.clone, table.unshare):
        code += _judge(call, _ARG0, [_NEW_NAMESPACES], _ANY_BIT, hit=refuse, miss=_ALLOW)
    code += _judge(table.ioctl, _ARG1, [_TIOCSTI, _TIOCLINUX], _EQUAL, hit=refuse, miss=_ALLOW)
    for call in (table.socket, table.socketpair):
        code += _judge(call, _ARG0, _FAMILIES, _EQUAL, hit=_ALLOW, miss=_ERRNO | errno.EAFNOSUPPORT)
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", op, yes, no, value) for op, yes, no, value in code)
