"""Access and logins below HTTP, on both databases: no key grants more than itself; codes, races and the clock."""

import base64
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import anyio
import pytest
import sqlalchemy as sa
from hypothesis import assume, given
from hypothesis import strategies as st

from conftest import Place
from corral.base import ids
from corral.kinds import Problem, Resource, scheme
from corral.kinds.apikey import APIKey, APIKeySpec
from corral.store import Store, Tx, objects, schema
from corral.verbs import access, logins
from corral.verbs.objects import create, delete
from corral.verbs.services import OPERATOR, Caller, Services

T = TypeVar("T")
KINDS = list(scheme)
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
OPERATORS = ids.digest(b"the operator's key")


class At:
    """The store when its clock is so many seconds after the beginning."""

    def __init__(self, store: Store, seconds: float) -> None:
        self.store, self.now = store, 1_800_000_000_000 + int(seconds * 1000)

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        async def at(tx: Tx) -> T:
            tx.now = self.now
            return await work(tx)

        return await self.store.write(at)


def services(store: Any) -> Services:
    nothing: Any = None
    return Services(store, nothing, nothing, OPERATORS)


async def make_key(at: Services, **spec: Any) -> tuple[str, dict[str, Any]]:
    body = APIKey.model_validate({"metadata": {"generate_name": "k-"}, "spec": {"scopes": ["*"], **spec}})
    _, shown = await create(at, OPERATOR, APIKey, "", body.model_dump_json(by_alias=True, exclude_none=True).encode())
    return ids.digest(shown["status"]["key"].encode()), shown


SCOPE = st.sampled_from(["*", "*:read", *(f"{k.plural}:{act}" for k in KINDS[:4] for act in ("read", "write"))])
SCOPES = st.lists(SCOPE, min_size=1, max_size=4, unique=True)
PROJECTS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=2, unique=True)
EXPIRES = st.none() | st.sampled_from([datetime(year, 1, 1, tzinfo=UTC) for year in (2100, 2200)])


def allowed(caller: Caller) -> set[tuple[str, access.Act, str | None]]:
    def may(cls: type[Resource], act: access.Act, place: str | None) -> bool:
        try:
            access.check(caller, cls, act, place)
        except Problem:
            return False
        return True

    acts: tuple[access.Act, ...] = ("read", "write")
    places = {kind: ("a", "b", "c", "nodus", "d") if kind.scope == "Project" else (None,) for kind in KINDS}
    return {(k.plural, act, place) for k in KINDS for act in acts for place in places[k] if may(k, act, place)}


@given(SCOPES, PROJECTS, EXPIRES, SCOPES, PROJECTS, EXPIRES)
def test_no_key_grants_more_than_itself(
    scopes: list[str], projects: list[str], expires: datetime | None, more: list[str], places: list[str], end: Any
) -> None:
    caller = Caller("alice", tuple(scopes), tuple(projects), "uid", "k", expires)
    spec = APIKeySpec(scopes=more, projects=places, expiration_time=end)
    new = replace(caller, scopes=tuple(more), projects=tuple(places), expires=end)
    within = allowed(new) <= allowed(caller) and (expires is None or (end is not None and end <= expires))
    within = within and (not caller.projects or bool(new.projects)) and new.operates <= caller.operates
    try:
        access.check_within(caller, spec)
    except Problem as problem:
        assert problem.reason.code == 403
        assert problem.fix
    else:
        assert within


@given(SCOPES, PROJECTS)
def test_a_key_can_make_its_equal(scopes: list[str], projects: list[str]) -> None:
    caller = Caller("alice", tuple(scopes), tuple(projects), "uid", "k")
    access.check_within(caller, APIKeySpec(scopes=scopes, projects=projects))


@given(SCOPES)
def test_writing_does_not_allow_reading(scopes: list[str]) -> None:
    assume("*" not in scopes and "*:read" not in scopes)
    for cls in KINDS:
        assert access.allows(tuple(scopes), cls.plural, "read") == (f"{cls.plural}:read" in scopes)
        assert access.allows(tuple(scopes), cls.plural, "write") == (f"{cls.plural}:write" in scopes)


def test_nobody_may_do_anything() -> None:
    assert allowed(Caller("")) == set()


async def test_keys_are_found_by_their_hash_until_they_are_deleted(store: Store) -> None:
    at = services(store)
    digest, shown = await make_key(at, user="alice", projects=["a"])
    caller = await access.authenticate(at, digest)
    assert caller is not None
    assert (caller.user, caller.projects, caller.key) == ("alice", ("a",), shown["metadata"]["uid"])
    assert await access.authenticate(at, OPERATORS) == OPERATOR
    assert await access.authenticate(replace(at, operator_digest=""), "") is None
    assert await access.authenticate(at, ids.digest(b"another")) is None
    await delete(at, OPERATOR, APIKey, "", shown["metadata"]["name"])
    assert await access.authenticate(at, digest) is None
    async with store.read() as conn:
        assert not await access.holds(conn, caller)
        assert (await conn.execute(sa.select(schema.keys))).all() == [], "nothing of it is left"


async def test_steady_use_is_noted_seldom(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    at = services(store)
    digest, _ = await make_key(at)
    versions = []
    for seconds in (600, 600, -1):
        monkeypatch.setattr(access, "LAST_USED_SECONDS", seconds)
        await access.authenticate(at, digest)
        async with store.read() as conn:
            versions.append((await objects.listing(conn, "APIKey", ""))[0].version)
    assert versions[0] == versions[1] < versions[2]


@pytest.mark.parametrize(("seconds", "works"), [(299, True), (301, False)])
async def test_a_code_lives_five_minutes(store: Store, seconds: int, works: bool) -> None:
    code = await logins.approve_loopback(services(At(store, 0)), OPERATORS, CHALLENGE, "laptop")
    later = services(At(store, seconds))
    if works:
        assert len(await logins.redeem(later, code, VERIFIER)) == 1
    else:
        with pytest.raises(Problem, match="expired"):
            await logins.redeem(later, code, VERIFIER)


async def test_a_code_that_is_redeemed_ten_times_at_once_gives_one_key(store: Store) -> None:
    code = await logins.approve_loopback(services(store), OPERATORS, CHALLENGE, "laptop")
    given_out: list[Any] = []

    async def redeem() -> None:
        try:
            given_out.extend(await logins.redeem(services(store), code, VERIFIER))
        except Problem:
            return

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(redeem)
    async with store.read() as conn:
        assert len(await objects.listing(conn, "APIKey", "")) == len(given_out) == 1


async def test_who_asks_too_often_has_to_wait_longer(store: Store) -> None:
    device = await logins.begin_device(services(At(store, 0)), "nodus-cli")

    async def asked(seconds: float) -> str:
        with pytest.raises(logins.Pending) as pending:
            await logins.poll_device(services(At(store, seconds)), device.device_code)
        return pending.value.error

    assert [await asked(at) for at in (0, 5, 7, 14, 18, 40)] == [
        "authorization_pending",
        "authorization_pending",
        "slow_down",  # now 10 seconds
        "slow_down",  # now 15 seconds
        "slow_down",  # now 20 seconds
        "authorization_pending",
    ]
    assert await asked(601) == "expired_token"
    await logins.begin_device(services(At(store, 1300)), "another")
    assert await asked(1300) == "invalid_grant", "old logins are cleared away"


async def test_any_server_of_a_database_goes_on_with_a_login(place: Place) -> None:
    if place.dialect == "sqlite":
        # One server at a time: the second is the first after a restart.
        async with place.open() as store:
            device = await logins.begin_device(services(store), "nodus-cli")
        async with place.open() as store:
            await logins.decide_device(services(store), OPERATORS, device.user_code, True)
            assert len(await logins.poll_device(services(store), device.device_code)) == 1
        return
    async with place.open() as first, place.open() as second:
        device = await logins.begin_device(services(first), "nodus-cli")
        await logins.decide_device(services(second), OPERATORS, device.user_code, True)
        assert len(await logins.poll_device(services(first), device.device_code)) == 1
