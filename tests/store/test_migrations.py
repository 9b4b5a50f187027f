"""The migrated tables are those of the schema, and starting is safe."""

import asyncio
import importlib.resources
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from conftest import Place
from corral.store import Store, StoreTooNew, StoreUnavailable, migrations, position
from corral.store.postgres import open_postgres
from corral.store.schema import metadata
from corral.store.sqlite import open_sqlite
from postgres import Server


async def test_the_migrated_tables_are_those_of_the_schema(store: Store) -> None:
    def differences(conn: sa.Connection) -> list[object]:
        context = MigrationContext.configure(conn, opts={"compare_type": True})
        assert context.get_current_revision() == migrations.revisions()[-1]
        return list(compare_metadata(context, metadata))

    def shape(conn: sa.Connection) -> dict[str, Any]:
        found = sa.inspect(conn)
        return {
            table: (
                [(c["name"], str(c["type"]).split()[0], c["nullable"], c["default"]) for c in found.get_columns(table)],
                found.get_pk_constraint(table)["constrained_columns"],
                sorted((i["name"], i["column_names"], _where(i)) for i in found.get_indexes(table)),
                sorted(u["column_names"] for u in found.get_unique_constraints(table)),
            )
            for table in metadata.tables
        }

    async with store.read() as conn:
        assert await conn.run_sync(differences) == []
        migrated = await conn.run_sync(shape)
        assert await position(conn) == 0
    assert sum(bool(index[2]) for table in migrated.values() for index in table[2]) == 4, "partial ones are compared"
    await store.write(lambda tx: tx.conn.run_sync(_make_anew))
    async with store.read() as conn:
        assert await conn.run_sync(shape) == migrated, "partial indexes, defaults and keys too"


def _where(index: Any) -> list[str]:
    return [str(value) for key, value in index.get("dialect_options", {}).items() if key.endswith("_where")]


def _make_anew(conn: sa.Connection) -> None:
    metadata.drop_all(conn)
    metadata.create_all(conn)


async def test_the_tables_do_not_depend_on_locale_data(postgres: Server) -> None:
    found = postgres.psql(
        postgres.database(),
        "SELECT table_name, column_name, collation_name FROM information_schema.columns WHERE table_schema = 'public' "
        "AND data_type = 'text' AND collation_name IS DISTINCT FROM 'C'",
    )
    assert found == ""


def test_the_newest_file_is_alembics_head() -> None:
    script = ScriptDirectory(str(migrations.HERE))
    assert migrations.revisions()[-1] == script.get_current_head()
    assert len(migrations.revisions()) == len(list(script.walk_revisions()))


def test_revisions_are_part_of_the_package() -> None:
    package = importlib.resources.files("corral.store.migrations")
    names = {entry.name for entry in package.joinpath("versions").iterdir()}
    assert {"0001_tables.py"} <= names
    assert package.joinpath("env.py").is_file()


async def test_several_processes_may_start_on_an_empty_database(postgres: Server) -> None:
    url = postgres.empty_database()
    stores = [open_postgres(url) for _ in range(5)]
    await asyncio.gather(*(store.start() for store in stores))
    for store in stores:
        async with store.read() as conn:
            assert await position(conn) == 0
        await store.aclose()


async def test_a_newer_database_is_refused(place: Place) -> None:
    async with place.open() as store:
        await store.write(lambda tx: tx.execute(sa.text("UPDATE alembic_version SET version_num = '9999'")))
    with pytest.raises(StoreTooNew, match=r"revision 9999, but this version knows only revisions up to"):
        await place.open().start()


async def test_a_migration_that_fails_leaves_nothing(
    tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    (broken / "versions").mkdir(parents=True)
    (broken / "env.py").write_text((migrations.HERE / "env.py").read_text())
    (broken / "versions" / "0001_broken.py").write_text(
        "from alembic import op\nimport sqlalchemy as sa\nrevision = '0001'\ndown_revision = None\n"
        "def upgrade():\n    op.create_table('half', sa.Column('a', sa.Integer))\n    raise LookupError('broken')\n"
    )
    for open_store, address in ((open_sqlite, str(tmp_path / "a.db")), (open_postgres, postgres.empty_database())):
        with monkeypatch.context() as patch, pytest.raises(LookupError, match="broken"):
            patch.setattr(migrations, "HERE", broken)
            await open_store(address).start()
        async with open_store(address) as store, store.read() as conn:
            assert not await conn.run_sync(lambda c: sa.inspect(c).has_table("half"))


async def test_an_unreachable_server_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        await open_postgres(f"postgresql://postgres@/x?host={tmp_path}").start()


def test_a_start_with_nothing_to_migrate_does_not_import_alembic(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\nfrom corral.store.sqlite import open_sqlite\n"
        "async def main():\n    async with open_sqlite(sys.argv[1]):\n        print('alembic' in sys.modules)\n"
        "asyncio.run(main())"
    )
    run = [sys.executable, "-c", program, str(tmp_path / "a.db")]
    answers = [subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip() for _ in range(2)]
    assert answers == ["True", "False"]
