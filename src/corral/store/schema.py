"""All tables. One schema for SQLite and Postgres; `migrations/` makes it, and a test compares the two.

Money is nano-USD, moments are milliseconds since 1970 (UTC), documents are JSON text. A version is a value of the one
counter that every change takes, in commit order.
"""

import sqlalchemy as sa

metadata = sa.MetaData()
# Byte order on both databases: names sort the same everywhere, and no index depends on the system's locale data.
Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
Int, Bytes = sa.BigInteger, sa.LargeBinary


def _partial(name: str, *columns: sa.ColumnElement[object], where: sa.ColumnElement[bool]) -> sa.Index:
    return sa.Index(name, *columns, sqlite_where=where, postgresql_where=where)


# One row: the last version given out. Taken last in a transaction, so versions follow the order of commits.
counter = sa.Table(
    "counter",
    metadata,
    sa.Column("id", Int, primary_key=True, autoincrement=False),
    sa.Column("value", Int, nullable=False),
)

objects = sa.Table(
    "objects",
    metadata,
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

# Each accepted spec once: revisions of an object, and what makes a change-log row small.
specs = sa.Table(
    "specs",
    metadata,
    sa.Column("uid", Text, primary_key=True),
    sa.Column("generation", Int, primary_key=True, autoincrement=False),
    sa.Column("spec", Text, nullable=False),
)

changes = sa.Table(
    "changes",
    metadata,
    sa.Column("version", Int, primary_key=True, autoincrement=False),
    sa.Column("type", Text, nullable=False),  # ADDED, MODIFIED, DELETED
    sa.Column("uid", Text, nullable=False),
    sa.Column("kind", Text, nullable=False),
    sa.Column("namespace", Text, nullable=False),
    sa.Column("name", Text, nullable=False),
    sa.Column("generation", Int, nullable=False),
    sa.Column("metadata", Text, nullable=False),
    sa.Column("status", Text, nullable=False),
    sa.Column("created", Int, nullable=False),  # of the object
    sa.Column("at", Int, nullable=False),  # of the change
)
sa.Index("changes_kind", changes.c.kind, changes.c.version)

# For each kind the highest version that was pruned from `changes`: a watch from an older position has missed something.
floors = sa.Table(
    "floors",
    metadata,
    sa.Column("kind", Text, primary_key=True),
    sa.Column("version", Int, nullable=False),
)

blobs = sa.Table(
    "blobs",
    metadata,
    sa.Column("sha256", Text, primary_key=True),
    sa.Column("size", Int, nullable=False),
    sa.Column("codec", Text, nullable=False),  # raw or zstd
    sa.Column("data", Bytes, nullable=False),
    sa.Column("created", Int, nullable=False),
)

# Secret values, sealed; the key is a file outside the database.
vault = sa.Table(
    "vault",
    metadata,
    sa.Column("uid", Text, primary_key=True),
    sa.Column("version", Int, primary_key=True, autoincrement=False),
    sa.Column("nonce", Bytes, nullable=False),
    sa.Column("sealed", Bytes, nullable=False),
    sa.Column("created", Int, nullable=False),
)

requests = sa.Table(
    "requests",
    metadata,
    sa.Column("principal", Text, primary_key=True),
    sa.Column("method", Text, primary_key=True),
    sa.Column("path", Text, primary_key=True),
    sa.Column("key", Text, primary_key=True),
    sa.Column("body_sha256", Text, nullable=False),
    sa.Column("status", Int, nullable=False),
    sa.Column("body", Text, nullable=False),
    sa.Column("expires", Int, nullable=False),
)
sa.Index("requests_expires", requests.c.expires)

executions = sa.Table(
    "executions",
    metadata,
    sa.Column("id", Text, primary_key=True),
    sa.Column("program", Text, nullable=False),
    sa.Column("input", Text, nullable=False),  # a blob reference: what the program was admitted with
    sa.Column("state", Text, nullable=False),  # ready running waiting cancelling succeeded failed cancelled
    sa.Column("reason", Text, nullable=False, server_default=""),
    sa.Column("message", Text, nullable=False, server_default=""),
    sa.Column("owner", Text),
    sa.Column("epoch", Int, nullable=False, server_default="0"),
    sa.Column("seq", Int, nullable=False),
    sa.Column("deadline", Int),
    sa.Column("cap", Int),  # nano-USD, NULL: none
    sa.Column("spent", Int, nullable=False, server_default="0"),
    sa.Column("reserved", Int, nullable=False, server_default="0"),
    sa.Column("created", Int, nullable=False),
    sa.Column("ended", Int),
    sa.Column("released", Int, nullable=False, server_default="0"),  # 1: what it held outside (a sandbox) is gone
)
_partial("executions_ready", executions.c.seq, where=executions.c.state == "ready")
_partial("executions_owner", executions.c.owner, where=executions.c.state == "running")
_partial("executions_held", executions.c.seq, where=executions.c.released == 0)
_partial("executions_deadline", executions.c.deadline, where=executions.c.ended.is_(None))

steps = sa.Table(
    "steps",
    metadata,
    sa.Column("execution", Text, primary_key=True),
    sa.Column("key", Text, primary_key=True),
    sa.Column("place", Int, nullable=False),  # order of first start within the execution
    sa.Column("name", Text, nullable=False),
    sa.Column("effect", Text, nullable=False),  # pure idempotent external
    sa.Column("state", Text, nullable=False),  # Started Completed Failed Uncertain Cancelled
    sa.Column("epoch", Int, nullable=False),
    sa.Column("attempt", Int, nullable=False),
    sa.Column("detail", Text, nullable=False),  # JSON: what `steps` shows
    sa.Column("output", Text),  # a blob reference
    sa.Column("reserved", Int, nullable=False, server_default="0"),
    sa.Column("cost", Int, nullable=False, server_default="0"),
    sa.Column("started", Int, nullable=False),
    sa.Column("ended", Int),
    sa.Column("version", Int, nullable=False),
)
sa.Index("steps_version", steps.c.execution, steps.c.version)

messages = sa.Table(
    "messages",
    metadata,
    sa.Column("execution", Text, primary_key=True),
    sa.Column("key", Text, primary_key=True),
    sa.Column("seq", Int, nullable=False),
    sa.Column("payload", Text, nullable=False),  # a blob reference
    sa.Column("consumed_by", Text),  # the step's key
    sa.Column("created", Int, nullable=False),
)

# A row for each reservation and each settlement; the sums in `executions` can be derived from it.
ledger = sa.Table(
    "ledger",
    metadata,
    sa.Column("execution", Text, primary_key=True),
    sa.Column("step", Text, primary_key=True),
    sa.Column("attempt", Int, primary_key=True, autoincrement=False),
    sa.Column("entry", Text, primary_key=True),  # reserve settle
    sa.Column("amount", Int, nullable=False),
    sa.Column("at", Int, nullable=False),
)

workers = sa.Table(
    "workers",
    metadata,
    sa.Column("id", Text, primary_key=True),
    sa.Column("until", Int, nullable=False),
)

# Which APIKey object a key belongs to; the digest is the SHA-256 of the key.
keys = sa.Table(
    "keys",
    metadata,
    sa.Column("digest", Text, primary_key=True),
    sa.Column("uid", Text, nullable=False),
    sa.Column("created", Int, nullable=False),
    sa.UniqueConstraint("uid", name="keys_uid"),
)

# Logins that are under way, by the SHA-256 of the code that the program redeems.
logins = sa.Table(
    "logins",
    metadata,
    sa.Column("digest", Text, primary_key=True),
    sa.Column("expires", Int, nullable=False),
    sa.Column("client", Text, nullable=False),
    sa.Column("user_code", Text),
    sa.Column("challenge", Text),
    sa.Column("state", Text, nullable=False),  # pending approved denied
    sa.Column("approver", Text),
    sa.Column("interval", Int, nullable=False),
    sa.Column("polled", Int, nullable=False),
    sa.UniqueConstraint("user_code", name="logins_user_code"),
)
sa.Index("logins_expires", logins.c.expires)
