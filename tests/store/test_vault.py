"""Sealed values, on both databases."""

import base64
from pathlib import Path

import pytest
import sqlalchemy as sa

from conftest import Place
from corral.store import Store, vault
from corral.store import objects as rows
from corral.store.objects import Stored
from corral.store.schema import vault as table
from corral.store.vault import Vault, VaultError
from postgres import Server

SECRET = b"correct horse battery staple"


async def test_values_come_back_by_version(store: Store, tmp_path: Path) -> None:
    box = Vault(tmp_path / "vault.key")
    values = {"token": SECRET, "binary": bytes(range(256)), "empty": b"", "é": b"\x00"}
    await store.write(lambda tx: box.put(tx, "u1", 1, values))
    await store.write(lambda tx: box.put(tx, "u1", 2, {"token": b"new"}))
    async with store.read() as conn:
        assert await box.get(conn, "u1", 1) == values
        assert await Vault(tmp_path / "vault.key").get(conn, "u1", 2) == {"token": b"new"}
        assert await box.get(conn, "u1", 3) is None
        assert await box.get(conn, "u2", 1) is None


async def test_old_versions_can_be_forgotten(store: Store, tmp_path: Path) -> None:
    box = Vault(tmp_path / "vault.key")
    for version in (1, 2, 3):
        await store.write(lambda tx, v=version: box.put(tx, "u1", v, {"token": SECRET}))
    assert await store.write(lambda tx: vault.forget(tx, "u1", before=3)) == 2
    async with store.read() as conn:
        assert await box.get(conn, "u1", 2) is None
        assert await box.get(conn, "u1", 3) == {"token": SECRET}
    assert await store.write(lambda tx: vault.forget(tx, "u1")) == 1


async def test_another_key_opens_nothing_and_says_so(store: Store, tmp_path: Path) -> None:
    await store.write(lambda tx: Vault(tmp_path / "a.key").put(tx, "u1", 1, {"token": SECRET}))
    async with store.read() as conn:
        with pytest.raises(VaultError, match=r"b\.key does not open secret u1 version 1.*Put back"):
            await Vault(tmp_path / "b.key").get(conn, "u1", 1)


async def test_a_sealed_row_opens_only_in_its_own_place(store: Store, tmp_path: Path) -> None:
    box = Vault(tmp_path / "vault.key")
    await store.write(lambda tx: box.put(tx, "u1", 1, {"token": SECRET}))
    await store.write(lambda tx: tx.execute(sa.update(table).values(uid="u2")))
    async with store.read() as conn:
        with pytest.raises(VaultError):
            await box.get(conn, "u2", 1)


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    box = Vault(tmp_path / "vault.key")
    nonce, sealed = box.seal("u", 1, {"token": SECRET})
    for place in (0, len(sealed) // 2, -1):
        broken = bytearray(sealed)
        broken[place] ^= 1
        with pytest.raises(VaultError):
            box.open("u", 1, nonce, bytes(broken))
    assert box.open("u", 1, nonce, sealed) == {"token": SECRET}


def test_the_same_values_are_never_sealed_alike(tmp_path: Path) -> None:
    box = Vault(tmp_path / "vault.key")
    assert len({box.seal("u", 1, {"token": SECRET}) for _ in range(100)}) == 100


def test_the_key_file_is_private_and_made_once(tmp_path: Path) -> None:
    path = tmp_path / "home" / "vault.key"
    nonce, sealed = Vault(path).seal("u", 1, {"token": SECRET})
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [found.name for found in path.parent.iterdir()] == ["vault.key"]
    assert Vault(path).open("u", 1, nonce, sealed) == {"token": SECRET}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "vault.key"
    Vault(path)
    path.chmod(mode)
    with pytest.raises(VaultError, match=f"mode {mode:04o}.*chmod 600 {path}"):
        Vault(path)


@pytest.mark.parametrize("text", ["", "not hex", "ab" * 31, "ab" * 33])
def test_a_file_that_holds_no_key_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    path = tmp_path / "vault.key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(VaultError, match="64 hex digits"):
        Vault(path)
    assert path.read_text() == text


async def test_plaintext_is_nowhere_in_the_files_of_the_database(
    place: Place, tmp_path: Path, postgres: Server
) -> None:
    box = Vault(tmp_path / "vault.key")
    control = "this is written in the clear"

    def found(text: bytes) -> bool:
        files = postgres.directory if place.dialect == "postgres" else Path(place.address).parent
        return any(text in file.read_bytes() for file in files.rglob("*") if file.is_file())

    async with place.open() as store:
        await store.write(lambda tx: box.put(tx, "u1", 1, {"password-name": SECRET}))
        await store.write(lambda tx: rows.create(tx, Stored.new("Thing", "p", "a", spec={"text": control})))
        assert found(control.encode()), "or the search proves nothing"
        for form in (SECRET, base64.b64encode(SECRET)[:-4], SECRET.hex().encode(), b"password-name"):
            assert not found(form)
    assert found(control.encode())
    assert not found(SECRET)
