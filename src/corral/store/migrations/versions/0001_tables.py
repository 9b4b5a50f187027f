"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
Int, Bytes = sa.BigInteger, sa.LargeBinary


def upgrade() -> None:
    """Makes all tables, and the counter's row."""
    _objects()
    _contents()
    _executions()
    _journal()


def _partial(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def _objects() -> None:
    op.create_table(
        "counter",
        sa.Column("id", Int, primary_key=True, autoincrement=False),
        sa.Column("value", Int, nullable=False),
    )
    op.execute("INSERT INTO counter (id, value) VALUES (1, 0)")
    op.create_table(
        "objects",
        sa.Column("uid", Text, primary_key=True),
        sa.Column("kind", Text, nullable=False),
        sa.Column("namespace", Text, nullable=False),
        sa.Column("name", Text, nullable=False),
        sa.Column("generation", Int, nullable=False),
        sa.Column("version", Int, nullable=False),
        sa.Column("metadata", Text, nullable=False),
        sa.Column("status", Text, nullable=False),
        sa.Column("created", Int, nullable=False),
        sa.UniqueConstraint("kind", "namespace", "name", name="objects_name"),
    )
    op.create_table(
        "specs",
        sa.Column("uid", Text, primary_key=True),
        sa.Column("generation", Int, primary_key=True, autoincrement=False),
        sa.Column("spec", Text, nullable=False),
    )
    op.create_table(
        "changes",
        sa.Column("version", Int, primary_key=True, autoincrement=False),
        sa.Column("type", Text, nullable=False),
        sa.Column("uid", Text, nullable=False),
        sa.Column("kind", Text, nullable=False),
        sa.Column("namespace", Text, nullable=False),
        sa.Column("name", Text, nullable=False),
        sa.Column("generation", Int, nullable=False),
        sa.Column("metadata", Text, nullable=False),
        sa.Column("status", Text, nullable=False),
        sa.Column("created", Int, nullable=False),
        sa.Column("at", Int, nullable=False),
    )
    op.create_index("changes_kind", "changes", ["kind", "version"])
    op.create_table(
        "floors",
        sa.Column("kind", Text, primary_key=True),
        sa.Column("version", Int, nullable=False),
    )


def _contents() -> None:
    op.create_table(
        "blobs",
        sa.Column("sha256", Text, primary_key=True),
        sa.Column("size", Int, nullable=False),
        sa.Column("codec", Text, nullable=False),
        sa.Column("data", Bytes, nullable=False),
        sa.Column("created", Int, nullable=False),
    )
    op.create_table(
        "vault",
        sa.Column("uid", Text, primary_key=True),
        sa.Column("version", Int, primary_key=True, autoincrement=False),
        sa.Column("nonce", Bytes, nullable=False),
        sa.Column("sealed", Bytes, nullable=False),
        sa.Column("created", Int, nullable=False),
    )
    op.create_table(
        "requests",
        sa.Column("principal", Text, primary_key=True),
        sa.Column("method", Text, primary_key=True),
        sa.Column("path", Text, primary_key=True),
        sa.Column("key", Text, primary_key=True),
        sa.Column("body_sha256", Text, nullable=False),
        sa.Column("status", Int, nullable=False),
        sa.Column("body", Text, nullable=False),
        sa.Column("expires", Int, nullable=False),
    )
    op.create_index("requests_expires", "requests", ["expires"])


def _executions() -> None:
    op.create_table(
        "executions",
        sa.Column("id", Text, primary_key=True),
        sa.Column("program", Text, nullable=False),
        sa.Column("input", Text, nullable=False),
        sa.Column("state", Text, nullable=False),
        sa.Column("reason", Text, nullable=False, server_default=""),
        sa.Column("message", Text, nullable=False, server_default=""),
        sa.Column("owner", Text),
        sa.Column("epoch", Int, nullable=False, server_default="0"),
        sa.Column("seq", Int, nullable=False),
        sa.Column("deadline", Int),
        sa.Column("cap", Int),
        sa.Column("spent", Int, nullable=False, server_default="0"),
        sa.Column("reserved", Int, nullable=False, server_default="0"),
        sa.Column("created", Int, nullable=False),
        sa.Column("ended", Int),
        sa.Column("released", Int, nullable=False, server_default="0"),
    )
    _partial("executions_deadline", "executions", ["deadline"], where="ended IS NULL")
    _partial("executions_held", "executions", ["seq"], where="released = 0")
    _partial("executions_owner", "executions", ["owner"], where="state = 'running'")
    _partial("executions_ready", "executions", ["seq"], where="state = 'ready'")
    op.create_table(
        "workers",
        sa.Column("id", Text, primary_key=True),
        sa.Column("until", Int, nullable=False),
    )


def _journal() -> None:
    op.create_table(
        "steps",
        sa.Column("execution", Text, primary_key=True),
        sa.Column("key", Text, primary_key=True),
        sa.Column("place", Int, nullable=False),
        sa.Column("name", Text, nullable=False),
        sa.Column("effect", Text, nullable=False),
        sa.Column("state", Text, nullable=False),
        sa.Column("epoch", Int, nullable=False),
        sa.Column("attempt", Int, nullable=False),
        sa.Column("detail", Text, nullable=False),
        sa.Column("output", Text),
        sa.Column("reserved", Int, nullable=False, server_default="0"),
        sa.Column("cost", Int, nullable=False, server_default="0"),
        sa.Column("started", Int, nullable=False),
        sa.Column("ended", Int),
        sa.Column("version", Int, nullable=False),
    )
    op.create_index("steps_version", "steps", ["execution", "version"])
    op.create_table(
        "messages",
        sa.Column("execution", Text, primary_key=True),
        sa.Column("key", Text, primary_key=True),
        sa.Column("seq", Int, nullable=False),
        sa.Column("payload", Text, nullable=False),
        sa.Column("consumed_by", Text),
        sa.Column("created", Int, nullable=False),
    )
    op.create_table(
        "ledger",
        sa.Column("execution", Text, primary_key=True),
        sa.Column("step", Text, primary_key=True),
        sa.Column("attempt", Int, primary_key=True, autoincrement=False),
        sa.Column("entry", Text, primary_key=True),
        sa.Column("amount", Int, nullable=False),
        sa.Column("at", Int, nullable=False),
    )
