"""Linking bank accounts. Numbers are hashed to find duplicates and sealed for the worker; nothing else keeps them."""

from __future__ import annotations

from bursar.core.crypto import Opener
from bursar.core.errors import (
    BankAccountCreateFailed,
    BankAccountNotFound,
    CurrencyNotSupported,
    DuplicateBankAccount,
    ValidationFailed,
)
from bursar.db.pool import Queryable, Record
from bursar.features.accounts import activation
from bursar.features.bank_accounts import numbers, queries
from bursar.features.bank_accounts.schemas import BankAccount, NewBankAccount, UseFor
from bursar.http.caller import load_account
from bursar.http.context import LARGEST_ID, Ctx

PREFIX = "ba_"
LARGEST = 50
OWN_MONEY = ("payout", "merchant")


def seal_context(account_id: int, bank_account_id: int) -> str:
    return f"bank_account:{account_id}:{bank_account_id}"


def parse_id(public_id: str) -> int:
    """The number in `ba_1234`; whatever else names no bank account."""
    digits = public_id.removeprefix(PREFIX)
    if digits == public_id or not (digits.isascii() and digits.isdigit()) or not 0 < int(digits) <= LARGEST_ID:
        raise BankAccountNotFound
    return int(digits)


async def required(db: Queryable, account_id: int, public_id: str) -> Record:
    """One of the account's bank accounts."""
    row = await queries.find(db, account_id, parse_id(public_id))
    if row is None:
        raise BankAccountNotFound
    return row


async def link(ctx: Ctx, new: NewBankAccount, use_for: UseFor = "payout") -> BankAccount:
    """A new bank account of the account acted on; `use_for` is what it is for unless the body says so."""
    if new.currency not in ctx.settings.currencies:
        raise CurrencyNotSupported
    try:
        found = numbers.read(
            country=new.country, sort_code=new.sort_code, account_number=new.account_number, iban=new.iban,
            test=ctx.settings.is_test, table=ctx.settings.modulus_table,
        )  # fmt: skip
    except numbers.Invalid as invalid:
        raise ValidationFailed(details=invalid.problems) from None
    account_id, purpose = ctx.account.account_id, new.use_for or use_for
    count, has_default = await queries.under_lock(ctx.db, account_id, purpose, new.currency)
    if count >= LARGEST:
        raise BankAccountCreateFailed("There are as many bank accounts as may be.", details={"limit": LARGEST})
    becomes_default = not has_default if new.is_default is None else new.is_default
    if becomes_default and has_default:
        await queries.clear_default(ctx.db, account_id, purpose, new.currency, ctx.now)
    number = await queries.next_id(ctx.db)
    name_check = _check_name(found.scenario, test=ctx.settings.is_test)
    row = await queries.insert(
        ctx.db,
        {
            "account_id": account_id,
            "id": number,
            "account_name": new.account_name,
            "bank_name": new.bank_name or found.bank_name or "",
            "currency": new.currency,
            "country": found.country,
            "last4": found.last4,
            "use_for": purpose,
            "is_default": becomes_default,
            "status": "pending" if name_check == "no_match" else "active",
            "name_check": name_check,
            "full_name": new.full_name,
            "email": new.email,
            "lookup": ctx.vault.lookup(f"bank account {found.canonical}"),
            "sealed": ctx.vault.seal(seal_context(account_id, number), found.canonical),
            "scenario": found.scenario,
            "now": ctx.now,
        },
    )
    if row is None:
        raise DuplicateBankAccount
    reply = as_reply(row)
    ctx.emit("bank_account.created", {"bank_account": reply})
    if purpose in OWN_MONEY:
        await activation.activate_if_ready(ctx, account_id)
    return reply


def _check_name(scenario: str | None, *, test: bool) -> str:
    """Whether the bank knows the account under this name. The simulated bank does, but for one number."""
    if not test:
        return "not_checked"
    return "no_match" if scenario == "name_no_match" else "matched"


async def decide(ctx: Ctx, row: Record, status: str) -> Record:
    """Staff clear an account whose name did not match, or disable one."""
    account = await load_account(ctx.db, row["account_id"])
    assert account is not None
    if row["status"] == status:
        return row
    after = await queries.set_status(ctx.db, row["account_id"], row["id"], status, ctx.now)
    if status == "disabled":
        ctx.emit_for(account, "bank_account.disabled", {"bank_account": as_reply(after)},
                     previous={"status": row["status"]})  # fmt: skip
    else:
        await activation.activate_if_ready(ctx, row["account_id"])
    return after


def open_numbers(opener: Opener, row: Record) -> str:
    """The numbers, for the worker: `GB 200000 55779911`, or an IBAN."""
    return opener.open(seal_context(row["account_id"], row["id"]), row["sealed"])


def as_reply(row: Record) -> BankAccount:
    shown = {name: row[name] for name in BankAccount.__struct_fields__}
    return BankAccount(**(shown | {"id": f"{PREFIX}{row['id']}"}))
