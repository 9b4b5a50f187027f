"""A driver is tried before it is used, and says what is wrong and how it is put right."""

from pathlib import Path

import anyio
import pytest

from corral.sandboxes import DriverSettings, SandboxError, SandboxGone, SandboxSpec, bubblewrap, diagnosis, guest
from corral.sandboxes.drivers import bwrap, process


async def test_a_bwrap_that_works(tmp_path: Path) -> None:
    probe = await bwrap.create_driver(DriverSettings(directory=str(tmp_path))).probe()
    assert probe.works and "bubblewrap 0." in probe.detail and not probe.remedy
    assert probe.guarantees["network"] == probe.guarantees["processes"] == "hard"
    assert {path.name async for path in anyio.Path(tmp_path).iterdir()} == {".locks", ".system"}


async def test_a_configured_bwrap_is_not_replaced_silently(tmp_path: Path) -> None:
    driver = bwrap.create_driver(DriverSettings(directory=str(tmp_path), bwrap="/bin/false"))
    probe = await driver.probe()
    assert not probe.works and "/bin/false" in probe.detail and probe.remedy
    with pytest.raises(SandboxError, match="To fix it"):
        await driver.create(SandboxSpec(id="box"))
    assert [name async for name in driver.list()] == []


async def test_a_missing_guest_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = guest.load
    monkeypatch.setattr(guest, "load", lambda: real(tmp_path))
    probe = await bwrap.create_driver(DriverSettings(directory=str(tmp_path / "home"))).probe()
    assert not probe.works and "not installed" in probe.detail and "reinstall" in probe.remedy


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--unshare-net", "no net namespace"),
        ("--unshare-ipc", "no ipc namespace"),
        ("--unshare-pid", "pid namespace|as-pid-1"),
    ],
)
async def test_the_supervisor_refuses_to_serve_unconfined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, said: str
) -> None:
    real = bubblewrap.arguments

    def weaker(*given: object) -> list[str]:
        return [argument for argument in real(*given) if argument != option]  # type: ignore[arg-type]

    monkeypatch.setattr(bubblewrap, "arguments", weaker)
    driver = bwrap.create_driver(DriverSettings(directory=str(tmp_path)))
    with pytest.raises(SandboxError, match=said):
        await driver.create(SandboxSpec(id="box"))


async def test_the_supervisor_refuses_to_serve_without_a_system_call_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = bubblewrap.arguments

    def weaker(*given: object) -> list[str]:
        arguments = real(*given)  # type: ignore[arg-type]
        at = arguments.index("--seccomp")
        return arguments[:at] + arguments[at + 2 :]

    monkeypatch.setattr(bubblewrap, "arguments", weaker)
    driver = bwrap.create_driver(DriverSettings(directory=str(tmp_path)))
    with pytest.raises(SandboxError, match="no seccomp filter"):
        await driver.create(SandboxSpec(id="box"))


def test_systems_that_cannot_work() -> None:
    assert diagnosis.unsupported("darwin") is not None
    wrong = diagnosis.unsupported("linux", "5.10.0-28-amd64")
    assert wrong is not None and "5.14" in wrong[1]
    assert diagnosis.unsupported("linux", "5.14.0") is None
    assert diagnosis.unsupported("linux", "6.1.0-rc1+") is None


@pytest.mark.parametrize(
    ("file", "content", "remedy"),
    [
        ("proc/sys/user/max_user_namespaces", "0\n", "user.max_user_namespaces"),
        ("proc/sys/kernel/unprivileged_userns_clone", "0\n", "unprivileged_userns_clone=1"),
        ("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", "AppArmor"),
        (".dockerenv", "", "seccomp=unconfined --security-opt systempaths=unconfined"),
        ("run/.containerenv", "", "systempaths=unconfined"),
        ("other", "", "allow them"),
    ],
)
def test_remedies(tmp_path: Path, file: str, content: str, remedy: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(content)
    assert remedy in diagnosis.remedy("bwrap: No permissions to create new namespace", tmp_path)


def test_the_remedy_for_an_old_bwrap(tmp_path: Path) -> None:
    assert "0.8" in diagnosis.remedy("bwrap: Unknown option --disable-userns", tmp_path)


async def test_plain_processes_are_lost_with_their_platform(tmp_path: Path) -> None:
    settings = DriverSettings(directory=str(tmp_path), unsafe=True)
    old = process.create_driver(settings)
    await (await old.create(SandboxSpec(id="box"))).start("c", ["true"])
    new = process.create_driver(settings)
    assert [name async for name in new.list()] == ["box"] and await new.adopt("box") is None
    box = await new.create(SandboxSpec(id="box"))
    for ask in (box.state, box.follow, box.kill):
        with pytest.raises(SandboxGone, match="not known"):
            await ask("c")
    with pytest.raises(SandboxGone):
        await box.start("c", ["true"])
    with pytest.raises(SandboxError, match="secrets"):
        await new.create(SandboxSpec(id="other", secrets={"A": b""}))
    for driver in (old, new):
        await driver.destroy("box")


def test_commands_without_isolation_must_be_accepted(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=r"no isolation.*unsafe"):
        process.create_driver(DriverSettings(directory=str(tmp_path)))
