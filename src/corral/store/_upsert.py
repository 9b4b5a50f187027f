"""`INSERT ... ON CONFLICT DO NOTHING`, which both databases spell alike but SQLAlchemy has only in their dialects."""

import sqlalchemy as sa


def insert_new(table: sa.Table, *conflict: str) -> sa.TextClause:
    """Inserts all columns of a row unless the `conflict` columns (the primary key by default) have it already.

    `rowcount` of the result says whether it did. An integrity error would end a transaction of Postgres; this does not.
    """
    names = [column.name for column in table.columns]
    keys = conflict or [column.name for column in table.primary_key]
    statement = sa.text(
        f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)}) "
        f"ON CONFLICT ({', '.join(keys)}) DO NOTHING"
    )
    return statement.bindparams(*(sa.bindparam(column.name, type_=column.type) for column in table.columns))
