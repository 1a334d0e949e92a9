"""What an account may do and what it still needs, computed from its state; nothing of it is stored.

The rules are pure. `facts` is the one query that gathers what they look at, for any number of accounts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

import msgspec

from bursar.db.pool import Queryable, Record

State = Literal["inactive", "pending", "active"]

_ORDER: tuple[State, ...] = ("inactive", "pending", "active")
# What staff must grant first; the others come with activation.
_ON_REQUEST = ("disburse", "trade", "issuing")


class Row(Protocol):
    """An account's row, or a mapping with the same names."""

    def __getitem__(self, name: str, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class Case:
    """A compliance request that is not cleared yet."""

    id: int
    status: str  # open, submitted, rejected or expired
    due_at: datetime
    blocks: bool
    notes: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    link_status: str | None = None  # of the newest verification link that counts
    link_error: tuple[str, str] | None = None
    bank_active: bool = False  # a default bank account for own money is active
    bank_pending: bool = False
    cases: tuple[Case, ...] = ()
    proofs: tuple[tuple[int, str], ...] = ()  # payments whose proof is not clear: id and proof_status


class Problem(msgspec.Struct):
    requirement: str
    code: str
    message: str


class Requirements(msgspec.Struct):
    currently_due: list[str]
    pending_verification: list[str]
    past_due: list[str]
    errors: list[Problem]
    current_deadline: datetime | None
    disabled_reason: str | None


class Capabilities(msgspec.Struct):
    payments: State
    payouts: State
    terminal: State
    disburse: State
    trade: State
    issuing: State


_FACTS = """
-- What readiness looks at: the newest link, the bank accounts, the uncleared compliance requests, and the
-- oldest proofs that are not clear.
SELECT a.account_id, l.status AS link_status, l.error_code, l.error_message,
       coalesce(b.active, false) AS bank_active, coalesce(b.pending, false) AS bank_pending,
       c.ids, c.statuses, c.dues, c.blocks, c.notes, p.ids AS proof_ids, p.statuses AS proof_statuses
FROM {accounts} AS a (account_id)
LEFT JOIN LATERAL (
    SELECT status, error_code, error_message
    FROM verification_link
    WHERE account_id = a.account_id AND status NOT IN ('expired', 'cancelled')
    ORDER BY id DESC
    LIMIT 1
) AS l ON true
LEFT JOIN LATERAL (
    SELECT bool_or(status = 'active' AND is_default) AS active, bool_or(status = 'pending') AS pending
    FROM bank_account
    WHERE account_id = a.account_id AND use_for IN ('payout', 'merchant')
) AS b ON true
LEFT JOIN LATERAL (
    SELECT array_agg(id ORDER BY id) AS ids, array_agg(status ORDER BY id) AS statuses,
           array_agg(due_at ORDER BY id) AS dues, array_agg(blocking <> '{{}}' ORDER BY id) AS blocks,
           array_agg(decision_notes ORDER BY id) AS notes
    FROM compliance_request
    WHERE account_id = a.account_id AND status IN ('open', 'submitted', 'rejected', 'expired')
) AS c ON true
LEFT JOIN LATERAL (
    SELECT array_agg(id ORDER BY id) AS ids, array_agg(proof_status ORDER BY id) AS statuses
    FROM (
        SELECT id, proof_status
        FROM payment
        WHERE account_id = a.account_id AND proof_status IN ('requested', 'submitted', 'rejected')
        ORDER BY id
        LIMIT 20
    ) AS uncleared
) AS p ON true
"""
# Of one account by its number alone: with a list, which may be short or long, PostgreSQL plans anew every time, and
# that takes longer than the query.
_OF_ONE = _FACTS.format(accounts="(VALUES ($1::bigint))")
_OF_SOME = _FACTS.format(accounts="unnest($1::bigint[])")


async def facts(db: Queryable, account_ids: Sequence[int]) -> dict[int, Facts]:
    if len(account_ids) == 1:
        rows = await db.fetch(_OF_ONE, account_ids[0])
    else:
        rows = await db.fetch(_OF_SOME, list(account_ids))
    return {row["account_id"]: _facts(row) for row in rows}


def _facts(row: Record) -> Facts:
    cases = zip(row["ids"] or (), row["statuses"] or (), row["dues"] or (), row["blocks"] or (), row["notes"] or (),
                strict=True)  # fmt: skip
    return Facts(
        link_status=row["link_status"],
        link_error=(row["error_code"], row["error_message"]) if row["error_code"] else None,
        bank_active=row["bank_active"],
        bank_pending=row["bank_pending"],
        cases=tuple(Case(*case) for case in cases),
        proofs=tuple(zip(row["proof_ids"] or (), row["proof_statuses"] or (), strict=True)),
    )


def may_activate(account: Row, known: Facts) -> bool:
    """Whether nothing stands any more between a pending account and its activation."""
    return (
        account["status"] == "pending"
        and account["kyc_status"] == "verified"
        and known.bank_active
        and not any(case.blocks for case in known.cases)
    )


def requirements(account: Row, known: Facts) -> Requirements:
    due: list[str] = []
    checking: list[str] = []
    late: list[str] = []
    errors: list[Problem] = []
    if account["kyc_status"] != "verified":
        (checking if known.link_status == "processing" else due).append("identity_verification")
        if known.link_error:
            errors.append(Problem("identity_verification", *known.link_error))
    if not known.bank_active:
        (checking if known.bank_pending else due).append("bank_account")
    for case in known.cases:
        name = f"compliance_request.{case.id}"
        {"submitted": checking, "expired": late}.get(case.status, due).append(name)
        if case.status == "rejected":
            errors.append(Problem(name, "response_rejected", case.notes or "The response was not accepted."))
    for payment_id, status in known.proofs:
        (checking if status == "submitted" else due).append(f"proof.{payment_id}")
        if status == "rejected":
            errors.append(Problem(f"proof.{payment_id}", "proof_rejected", "The proof was not accepted."))
    deadlines = [case.due_at for case in known.cases if case.status in ("open", "rejected")]
    return Requirements(
        due, checking, late, errors, min(deadlines, default=None), _disabled_reason(account, waits=bool(due or late))
    )


def _disabled_reason(account: Row, *, waits: bool) -> str | None:
    """Why something is switched off; the weightiest reason."""
    reasons = (
        (account["status"] == "banned", "banned"),
        (account["status"] == "review", "under_review"),
        (account["status"] == "pending", "requirements_due" if waits else "requirements_pending_verification"),
        (bool(account["compliance_holds"]), "compliance_hold"),
        (account["payments_paused"] or account["payouts_paused"], "paused"),
        (account["connect_status"] == "paused", "paused_by_platform"),
        (account["connect_status"] == "review", "under_review"),
    )
    return next((reason for holds, reason in reasons if holds), None)


def capabilities(account: Row, known: Facts) -> Capabilities:
    """Each is as far as both the account's state and what staff granted allow."""
    payments, payouts = _payments(account), _payouts(account, known)
    reached = {"payments": payments, "payouts": payouts, "terminal": payments, "disburse": payouts, "trade": payments,
               "issuing": payments}  # fmt: skip
    granted = {name: "inactive" if name in _ON_REQUEST else "active" for name in reached} | account["capabilities"]
    return Capabilities(**{name: min(state, granted[name], key=_ORDER.index) for name, state in reached.items()})


def _payments(account: Row) -> State:
    stopped = account["payments_paused"] or account["connect_status"] == "paused"
    if account["status"] == "banned" or stopped or "payments" in account["compliance_holds"]:
        return "inactive"
    return "pending" if account["status"] == "pending" else "active"


def _payouts(account: Row, known: Facts) -> State:
    stopped = account["payouts_paused"] or account["connect_status"] in ("paused", "review")
    if account["status"] in ("banned", "review") or stopped or "payouts" in account["compliance_holds"]:
        return "inactive"
    waits = account["status"] == "pending" or account["kyc_status"] != "verified" or not known.bank_active
    return "pending" if waits else "active"
