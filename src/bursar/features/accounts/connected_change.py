"""What a platform may change of an account it connected."""

from __future__ import annotations

from typing import Any

from bursar.core.errors import Forbidden, ValidationFailed
from bursar.db.pool import Record
from bursar.features.accounts import connected_queries, countries
from bursar.features.accounts.connected_schemas import ConnectedAccountChanges
from bursar.features.accounts.replies import full_reply
from bursar.features.accounts.schemas import AccountReply
from bursar.http.caller import Gate, admit, load_account
from bursar.http.context import Ctx

# (connection status, what the platform asks for): only staff end a review.
CONNECT_MOVES = frozenset({("active", "paused"), ("paused", "active"), ("active", "review"), ("paused", "review")})


async def change(ctx: Ctx, before: Record, changes: ConnectedAccountChanges) -> AccountReply:
    """Applies what was given to the locked account; tells of it only if a value changed."""
    account = await load_account(ctx.db, before["account_id"])
    assert account is not None
    admit(account, Gate.WRITE)
    given: dict[str, Any] = {name: getattr(changes, name) for name in changes.model_fields_set}
    _check_move(before["connect_status"], given.get("connect_status"))
    previous = {name: before[name] for name, value in given.items() if name != "mobile" and before[name] != value}
    if "mobile" in given:
        previous |= await _change_mobile(ctx, before, given.pop("mobile"))
    if not previous:
        return await full_reply(ctx.db, before, for_platform=True)
    after = await connected_queries.update_connected(ctx.db, account.account_id, {**before, **given}, ctx.now)
    ctx.account_changed(account.account_id)
    reply = await full_reply(ctx.db, after, for_platform=True)
    ctx.emit_for(account, "account.update", {"account": reply}, previous=previous)
    return reply


def _check_move(now: str, wanted: str | None) -> None:
    if wanted is None or wanted == now or (now, wanted) in CONNECT_MOVES:
        return
    raise Forbidden(
        "Only staff can end a review.", details={"connect_status": [f"cannot go from {now} to {wanted} here"]}
    )


async def _change_mobile(ctx: Ctx, before: Record, number: str) -> dict[str, Any]:
    mobile = countries.telephone(before["country_code"], number)
    if mobile is None:
        raise ValidationFailed(details={"mobile": [f"must be a telephone number of {before['country_code']}"]})
    known = await connected_queries.find_mobile(ctx.db, before["account_id"])
    if known is None or known == mobile:
        return {}  # accounts that the operator opened have no profile to change
    await connected_queries.update_mobile(ctx.db, before["account_id"], mobile, ctx.now)
    return {"mobile": known}
