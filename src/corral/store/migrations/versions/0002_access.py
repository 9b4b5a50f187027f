"""Keys of the API, and logins that are under way."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
Int = sa.BigInteger


def upgrade() -> None:
    """Makes the two tables."""
    op.create_table(
        "keys",
        sa.Column("digest", Text, primary_key=True),
        sa.Column("uid", Text, nullable=False),
        sa.Column("created", Int, nullable=False),
        sa.UniqueConstraint("uid", name="keys_uid"),
    )
    op.create_table(
        "logins",
        sa.Column("digest", Text, primary_key=True),
        sa.Column("expires", Int, nullable=False),
        sa.Column("client", Text, nullable=False),
        sa.Column("user_code", Text),
        sa.Column("challenge", Text),
        sa.Column("state", Text, nullable=False),
        sa.Column("approver", Text),
        sa.Column("interval", Int, nullable=False),
        sa.Column("polled", Int, nullable=False),
        sa.UniqueConstraint("user_code", name="logins_user_code"),
    )
    op.create_index("logins_expires", "logins", ["expires"])
