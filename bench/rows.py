"""What a create leaves behind, read back from the tables: the floors insert the same rows, whatever columns they have.

One payment is made over HTTP; each of its three rows becomes an INSERT with every value that the real one has, but for
what must be new in each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import asyncpg

from bench.stage import Stage

# In the order in which a create writes them.
TABLES = ("idempotency_key", "payment", "event")

# What differs from row to row. `n` is a random number, as the client's own key and order number are; ids and the ids of
# events rise.
_NEW = {
    "idempotency_key": {"key": "'bench-' || :n::bigint"},
    "payment": {"id": "nextval('payment_id')", "identifier": "'order-' || :n::bigint"},
    "event": {"id": "nextval('event_id')", "event_id": "'evt_' || lpad(currval('event_id')::text, {event_id}, '0')"},
}
_RANDOM = "\\set n random(1, 9000000000000000)\n"


@dataclass(frozen=True)
class Floor:
    """The three inserts as pgbench scripts."""

    statements: str  # BEGIN, one after the other, COMMIT
    single: str


async def floor_of_create(stage: Stage, merchant_id: int, floor_id: int) -> Floor:
    """From the newest create of a merchant. The floor's rows are those of another account, `floor_id`."""
    connection = await stage.connect()
    try:
        inserts = [await _insert(connection, table, merchant_id, floor_id) for table in TABLES]
    finally:
        await connection.close()
    first, second, third = inserts
    single = f"WITH one AS (\n{first}\n), two AS (\n{second}\n)\n{third};\n"
    statements = "BEGIN;\n" + "".join(f"{insert};\n" for insert in inserts) + "COMMIT;\n"
    return Floor(_RANDOM + statements, _RANDOM + single)


async def _insert(connection: asyncpg.Connection[Any], table: str, merchant_id: int, floor_id: int) -> str:
    row = await connection.fetch(
        f"""
        SELECT v.key AS name, v.value AS value, format_type(a.atttypid, a.atttypmod) AS type
        FROM (SELECT * FROM {table} WHERE account_id = $1 ORDER BY created_at DESC LIMIT 1) AS r,
             jsonb_each_text(to_jsonb(r)) AS v
        JOIN pg_attribute a ON a.attrelid = $2::text::regclass AND a.attname = v.key AND a.attgenerated = ''
        WHERE v.value IS NOT NULL
          AND NOT EXISTS (  -- what the database fills in by itself, it fills in here as well
              SELECT FROM pg_attrdef f
              WHERE f.adrelid = a.attrelid AND f.adnum = a.attnum AND pg_get_expr(f.adbin, f.adrelid) LIKE '%(%'
          )
        ORDER BY a.attnum
        """,
        merchant_id,
        table,
    )
    names, values = [], []
    for name, value, type_ in row:
        names.append(name)
        if name in _NEW[table]:
            values.append(_NEW[table][name].format(event_id=len(value) - 4))
        elif name == "account_id":
            values.append(str(floor_id))
        elif type_ == "timestamp with time zone":
            values.append("now()" if name not in ("expires_at", "due_at") else "now() + interval '1 day'")
        else:
            values.append(f"{_quoted(value)}::{type_}")
    conflict = ""
    if table == "payment":
        conflict = (
            "\nON CONFLICT (account_id, identifier) WHERE status IN ('pending', 'succeeded', 'refunded') DO NOTHING"
        )
    elif table == "idempotency_key":
        conflict = "\nON CONFLICT (account_id, family, scope, key) DO NOTHING"
    return f"INSERT INTO {table} ({', '.join(names)})\nVALUES ({', '.join(values)}){conflict}"


def _quoted(value: str) -> str:
    """As a literal without colons, which pgbench would take for its variables."""
    text = value.replace("\\", "\\\\").replace("'", "''").replace(":", "\\x3a").replace("\n", "\\n")
    return f"E'{text}'"
