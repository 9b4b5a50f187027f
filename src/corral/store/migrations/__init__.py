"""Brings the tables of a database to the newest revision, when a store starts.

A revision is a file in `versions/` whose name begins with its number. Alembic runs them, all in one transaction, and is
imported only if there is something to run, as it is slow to import.
"""

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from corral.store._errors import StoreTooNew

HERE = Path(__file__).parent
_LOCK = 0x636F7272616C  # any number that nobody else locks in the database: "corral"


def revisions() -> list[str]:
    """All revisions there are, oldest first."""
    return sorted(path.stem.partition("_")[0] for path in (HERE / "versions").glob("[0-9]*.py"))


async def migrate(engine: AsyncEngine) -> None:
    """Runs the revisions that the database lacks. Safe when several processes start at once.

    Raises StoreTooNew if the database has a revision that is not in `versions/`.
    """
    known = revisions()
    async with engine.connect() as conn:
        current = await conn.run_sync(_current)
    if current == known[-1]:
        return
    if current is not None and current not in known:
        raise StoreTooNew(current, known[-1])
    async with engine.begin() as conn:
        if conn.dialect.name == "postgresql":
            await conn.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        await conn.run_sync(_upgrade)


def _current(conn: sa.Connection) -> str | None:
    if not sa.inspect(conn).has_table("alembic_version"):
        return None
    found = conn.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def _upgrade(conn: sa.Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": conn})
    config.set_main_option("script_location", str(HERE).replace("%", "%%"))
    command.upgrade(config, "head")
