"""The operator's audit trail: every call of the operator API, who made it, what it changed."""

from __future__ import annotations

from urllib.parse import unquote

from bursar.core.text import mask
from bursar.db.pool import Connection
from bursar.http.context import Ctx
from bursar.http.exchange import Exchange


async def record(exchange: Exchange, ctx: Ctx, db: Connection, status: int) -> None:
    """Writes the record of an operator's call, in the transaction of what it did; nothing for other callers."""
    caller = exchange.caller
    if caller is None or caller.kind != "operator":
        return
    note = ctx.audit
    await db.execute(
        """
        INSERT INTO operator_audit
            (account_id, id, actor, break_glass, action, target, status, before, after, request_id, at)
        VALUES ($1, nextval('operator_audit_id'), 'operator key', true, $2, $3, $4, $5, $6, $7, $8)
        """,
        note.account_id if note else 0,
        exchange.route.name,
        mask(f"{exchange.method} {unquote(exchange.target_path)}"),
        status,
        note.before if note else None,
        note.after if note else None,
        exchange.request_id,
        ctx.now,
    )
