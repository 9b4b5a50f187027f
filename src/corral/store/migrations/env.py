"""Alembic runs this file; the connection, with its transaction, comes from `migrate`."""

from alembic import context

from corral.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
