"""The filter decides as meant on both architectures, run by a small interpreter of its instructions."""

import errno
import struct

import pytest

from corral.sandboxes import SandboxError, seccomp

ALLOW, KILL = 0x7FFF0000, 0x80000000
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def refused(error: int) -> int:
    return 0x00050000 | error


def decide(program: bytes, arch: int, number: int, first: int = 0, second: int = 0) -> int:
    """What a seccomp program returns for a call (linux/filter.h, struct seccomp_data)."""
    data = struct.pack("<IIQ6Q", number, arch, 0, first, second, 0, 0, 0, 0)
    code = [struct.unpack_from("<HBBI", program, at) for at in range(0, len(program), 8)]
    at = value = 0
    while True:
        operation, yes, no, operand = code[at]
        at += 1
        if operation == 0x20:
            (value,) = struct.unpack_from("<I", data, operand)
        elif operation == 0x06:
            return int(operand)
        else:
            holds = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[operation]
            at += yes if holds else no


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_decisions(machine: str) -> None:
    program, arch = seccomp.program(machine), ARCH[machine]
    table = seccomp._TABLES[machine]
    for number in (table.refused | seccomp._SAME).values():
        assert decide(program, arch, number) == refused(errno.EPERM)
    for number in (425, 426, 427, 435):
        assert decide(program, arch, number) == refused(errno.ENOSYS)
    for call in (table.clone, table.unshare):
        assert decide(program, arch, call, 0x00010F00) == ALLOW
        for bit in (0x80, 0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
            assert decide(program, arch, call, bit | 17) == refused(errno.EPERM), hex(bit)
    for request, wanted in ((0x5412, errno.EPERM), (0x541C, errno.EPERM), (0x5401, 0), (0x5413, 0)):
        assert decide(program, arch, table.ioctl, 1, request) == (refused(wanted) if wanted else ALLOW)
        assert decide(program, arch, table.ioctl, 1, request | 1 << 40) == (refused(wanted) if wanted else ALLOW)
    for call in (table.socket, table.socketpair):
        for family in range(46):
            allowed = family in (1, 2, 10, 16)
            assert decide(program, arch, call, family) == (ALLOW if allowed else refused(errno.EAFNOSUPPORT))
    read, write, execve = (0, 1, 59) if machine == "x86_64" else (63, 64, 221)
    assert {decide(program, arch, number) for number in (read, write, execve, 10_000)} == {ALLOW}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_calls_of_other_architectures_kill(machine: str) -> None:
    program = seccomp.program(machine)
    others = {0x40000003, 0x40000028, *ARCH.values()} - {ARCH[machine]}
    assert {decide(program, arch, 1) for arch in others} == {KILL}
    assert decide(program, ARCH[machine], 0x40000001) == (KILL if machine == "x86_64" else ALLOW)


def test_another_machine() -> None:
    with pytest.raises(SandboxError, match="riscv64"):
        seccomp.program("riscv64")
