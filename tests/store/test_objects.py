"""Objects, on both databases."""

import asyncio

import pytest
import sqlalchemy as sa

from corral.store import Store, Tx, position
from corral.store import changes as log
from corral.store import objects as rows
from corral.store.objects import Gone, NameTaken, Stored, VersionConflict
from corral.store.schema import changes, objects, specs


def thing(name: str = "a", namespace: str = "p", **parts: object) -> Stored:
    return Stored.new("Thing", namespace, name, **parts)  # type: ignore[arg-type]


async def make(store: Store, stored: Stored) -> Stored:
    return await store.write(lambda tx: rows.create(tx, stored))


async def count(store: Store, table: sa.Table) -> int:
    async with store.read() as conn:
        return (await conn.execute(sa.select(sa.func.count()).select_from(table))).scalar_one()


async def test_create_is_read_back_by_name_and_uid(store: Store) -> None:
    given = thing(metadata={"labels": {"x": "y"}}, spec={"b": 1, "a": [2]}, status={"phase": "New"})
    made = await make(store, given)
    async with store.read() as conn:
        assert await rows.get(conn, "Thing", "p", "a") == made
        assert await rows.get_uid(conn, made.uid) == made
        assert await rows.get(conn, "Thing", "q", "a") is None
        assert await rows.revision(conn, made.uid, 1) == {"b": 1, "a": [2]}
        assert await rows.revision(conn, made.uid, 2) is None
        assert await position(conn) == made.version == store.version()
    assert (made.generation, given.generation) == (1, 0)
    assert list(made.spec) == ["b", "a"], "keys keep their order"


async def test_document_is_the_object_on_the_wire(store: Store) -> None:
    given = thing(metadata={"labels": {"x": "y"}, "name": "forged"}, spec={"a": 1})
    given.created = 1_700_000_000_123
    made = await make(store, given)
    assert made.document() == {
        "apiVersion": "nodus.dev/v1",
        "kind": "Thing",
        "metadata": {
            "labels": {"x": "y"},
            "name": "a",
            "namespace": "p",
            "uid": made.uid,
            "resourceVersion": str(made.version),
            "generation": 1,
            "creationTimestamp": "2023-11-14T22:13:20.123Z",
        },
        "spec": {"a": 1},
        "status": {},
    }


async def test_a_name_is_taken_once_and_its_holder_stays(store: Store) -> None:
    first = await make(store, thing(spec={"first": True}))
    with pytest.raises(NameTaken, match="'a' exists already in 'p'"):
        await make(store, thing(spec={"first": False}))
    async with store.read() as conn:
        assert await rows.get(conn, "Thing", "p", "a") == first
    assert (await count(store, specs), await count(store, changes)) == (1, 1)


async def test_one_of_many_concurrent_creators_wins(store: Store) -> None:
    outcomes = await asyncio.gather(*(make(store, thing()) for _ in range(20)), return_exceptions=True)
    winners = [outcome for outcome in outcomes if isinstance(outcome, Stored)]
    assert len(winners) == 1
    assert all(isinstance(outcome, NameTaken) for outcome in outcomes if outcome is not winners[0])
    assert await count(store, objects) == 1


async def test_update_replaces_parts_and_counts_generations(store: Store) -> None:
    made = await make(store, thing(spec={"a": 1}, status={"s": 1}))
    second = await store.write(lambda tx: rows.update(tx, made, spec={"a": 2}))
    third = await store.write(lambda tx: rows.update(tx, made, status={"s": 2}, metadata={"labels": {}}))
    assert (second.generation, second.spec, second.status) == (2, {"a": 2}, {"s": 1})
    assert (third.generation, third.spec, third.status) == (2, {"a": 2}, {"s": 2})
    assert made.version < second.version < third.version
    async with store.read() as conn:
        assert await rows.get_uid(conn, made.uid) == third
        assert await rows.revision(conn, made.uid, 1) == {"a": 1}
        assert await rows.revision(conn, made.uid, 2) == {"a": 2}


async def test_update_without_a_difference_writes_nothing(store: Store) -> None:
    made = await make(store, thing(spec={"a": 1}, status={"s": [1]}))
    same = await store.write(lambda tx: rows.update(tx, made, metadata={}, spec={"a": 1}, status={"s": [1]}))
    assert same == made
    async with store.read() as conn:
        assert await position(conn) == made.version


async def test_an_expected_version_that_is_past_is_refused(store: Store) -> None:
    made = await make(store, thing())
    await store.write(lambda tx: rows.update(tx, made, status={"n": 1}))
    with pytest.raises(VersionConflict, match=f"since version {made.version}"):
        await store.write(lambda tx: rows.update(tx, made, status={"n": 2}, expected_version=made.version))
    with pytest.raises(VersionConflict):
        await store.write(lambda tx: rows.delete(tx, made, expected_version=made.version))


async def test_of_two_updates_in_one_batch_with_the_same_expectation_one_wins(store: Store) -> None:
    made = await make(store, thing())

    async def change(n: int) -> Stored:
        return await store.write(lambda tx: rows.update(tx, made, status={"n": n}, expected_version=made.version))

    outcomes = await asyncio.gather(*(change(n) for n in range(10)), return_exceptions=True)
    winners = [outcome for outcome in outcomes if isinstance(outcome, Stored)]
    assert len(winners) == 1
    assert sum(isinstance(outcome, VersionConflict) for outcome in outcomes) == 9
    async with store.read() as conn:
        assert await rows.get_uid(conn, made.uid) == winners[0]


async def test_several_changes_of_one_object_in_one_work_are_several_versions(store: Store) -> None:
    async def work(tx: Tx) -> tuple[Stored, Stored]:
        made = await rows.create(tx, thing(spec={"n": 1}))
        return made, await rows.update(tx, made, spec={"n": 2})

    made, changed = await store.write(work)
    assert changed.version == made.version + 1
    async with store.read() as conn:
        assert await rows.get_uid(conn, made.uid) == changed
        found = await log.since(conn, "Thing", None, 0)
    assert [(c.version, c.type, c.stored.spec) for c in found] == [
        (made.version, "ADDED", {"n": 1}),
        (changed.version, "MODIFIED", {"n": 2}),
    ]


async def test_delete_keeps_the_specs_that_the_log_shows(store: Store) -> None:
    made = await make(store, thing(spec={"n": 1}))
    gone = await store.write(lambda tx: rows.delete(tx, made))
    async with store.read() as conn:
        assert await rows.get_uid(conn, made.uid) is None
        found = await log.since(conn, "Thing", "p", 0)
    assert [(c.type, c.stored.spec, c.stored.created) for c in found] == [
        ("ADDED", {"n": 1}, made.created),
        ("DELETED", {"n": 1}, made.created),
    ]
    assert found[-1].version == gone.version == found[-1].stored.version
    for act in (rows.delete, rows.update):
        with pytest.raises(Gone):
            await store.write(lambda tx, act=act: act(tx, made))
    again = await make(store, thing(spec={"n": 1}))
    assert again.uid != made.uid and again.generation == 1


async def test_listing_is_in_order_and_in_pages(store: Store) -> None:
    names = ["b", "a-1", "a.1", "a1", "a", "10", "9"]
    for name in names:
        for namespace in ("p", "o"):
            await make(store, thing(name, namespace))
    await store.write(lambda tx: rows.create(tx, Stored.new("Other", "p", "a")))
    async with store.read() as conn:
        everything = await rows.listing(conn, "Thing", None)
        assert [(s.namespace, s.name) for s in everything] == [(n, x) for n in ("o", "p") for x in sorted(names)]
        assert [s.name for s in await rows.listing(conn, "Thing", "p")] == sorted(names)
        paged: list[Stored] = []
        while page := await rows.listing(
            conn, "Thing", None, after=(paged[-1].namespace, paged[-1].name) if paged else None, limit=3
        ):
            paged += page
        assert paged == everything


@pytest.mark.parametrize("text", ["a\x00b", "\ud83d half", "😀 ß 漢", "'; DROP TABLE objects; --", ":name %s $1"])
async def test_any_text_comes_back_as_it_was(store: Store, text: str) -> None:
    made = await make(store, thing(metadata={"annotations": {text: text}}, spec={text: [text]}, status={"s": text}))
    async with store.read() as conn:
        assert await rows.get_uid(conn, made.uid) == made
    assert made.spec == {text: [text]}


async def test_a_number_that_json_lacks_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="JSON"):
        await make(store, thing(spec={"n": float("nan")}))
    assert await count(store, objects) == 0
