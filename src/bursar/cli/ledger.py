"""`bursar ledger`: an account's statement, and one movement explained. Reads the database itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from bursar.cli import options, output

if TYPE_CHECKING:
    from bursar.db.pool import Database
    from bursar.ledger.statement import Explained, Statement

T = TypeVar("T")

app = typer.Typer(help="The ledger, for a bookkeeper.", no_args_is_help=True)

STATEMENT = ("date", "seq", "journal", "what", "for", "note", "in", "out", "reserved", "balance")
LEGS = ("account", "debit", "credit")
EFFECTS = ("wallet", "entry", "class", "main", "pending", "reserve", "available before", "available after")


@app.command()
def show(
    account: options.Merchant,
    currency: Annotated[str | None, typer.Option(help="Only this currency's wallet.")] = None,
    last: Annotated[int, typer.Option(min=1, max=100_000, help="How many entries, counted from the newest.")] = 100,
    data_dir: options.DataDir = None,
    as_json: options.Json = False,
) -> None:
    """Print an account's statement, wallet by wallet."""
    from bursar.ledger.statement import statements

    number = account_number(account)

    async def read(db: Database) -> list[Statement]:
        return await statements(db, number, currency=currency, largest=last)

    found = from_database(data_dir, read)
    if as_json:
        output.json(output.encoded(found))
        return
    if not found:
        output.say(f"Account {number} has no wallet{' in ' + currency if currency else ''}.")
    for statement in found:
        _print_statement(statement)


@app.command()
def explain(
    journal: Annotated[int, typer.Argument(min=1, help="Number of the journal; WTX-n of the public rows is n.")],
    data_dir: options.DataDir = None,
    as_json: options.Json = False,
) -> None:
    """Show one movement: which accounts it debits and credits, and what it did to the wallets."""
    from bursar.cli.client import ClientError
    from bursar.ledger import statement

    async def read(db: Database) -> Explained | None:
        return await statement.explain(db, journal)

    found = from_database(data_dir, read)
    if found is None:
        raise ClientError(f"there is no journal {journal}")
    if as_json:
        output.json(output.encoded(found))
        return
    output.record(
        {
            "journal": found.journal_id,
            "account": found.account_id,
            "kind": f"{found.kind} {found.ref}",
            "for": found.related,
            "note": found.note,
            "happened": found.event_at,
            "recorded": found.created_at,
            "currency": found.currency,
        }
    )
    output.rows(LEGS, ({"account": leg.account, "debit": leg.debit, "credit": leg.credit} for leg in found.legs))
    if found.effects:
        output.rows(EFFECTS, (_effect(effect) for effect in found.effects))


def account_number(named: str) -> int:
    """The merchant number of an account named by it or by its full id."""
    from bursar.cli.client import ClientError
    from bursar.core.ids import parse_account_id

    parsed = parse_account_id(named)
    if parsed is None:
        raise ClientError(f"{named} is neither a merchant number nor an account id")
    return parsed[0]


def database_url(data_dir: Path | None) -> str:
    """The database of the settings or, else, the embedded server of the data directory."""
    from bursar.db.embedded import EmbeddedServer
    from bursar.settings import load

    settings = load(data_dir=data_dir)
    return settings.database_url.get_secret_value() or EmbeddedServer(settings.data_dir).urls().service


def from_database(data_dir: Path | None, read: Callable[[Database], Awaitable[T]]) -> T:
    import asyncio

    from bursar.db.pool import Database

    async def work() -> T:
        db = await Database.open(database_url(data_dir), size=1, name="bursar cli")
        try:
            return await read(db)
        finally:
            await db.close()

    return asyncio.run(work())


def _print_statement(statement: Statement) -> None:
    output.say(f"Account {statement.account_id}, {statement.currency}. Opening balance {statement.opening}.")
    output.rows(
        STATEMENT,
        (
            {
                "date": row.at.strftime("%Y-%m-%d %H:%M"),
                "seq": row.seq,
                "journal": row.journal_id,
                "what": row.kind,
                "for": row.related,
                "note": row.note,
                "in": row.money_in,
                "out": row.money_out,
                "reserved": row.reserved,
                "balance": row.balance,
            }
            for row in statement.rows
        ),
    )
    output.say(
        f"Closing balance {statement.closing}: settled {statement.settled}, pending {statement.pending}; "
        f"held in reserve besides {statement.reserve}."
    )


def _effect(effect: Any) -> dict[str, Any]:
    return {
        "wallet": effect.account_id,
        "entry": effect.kind,
        "class": "request" if effect.asks else "fact",
        "main": effect.main,
        "pending": effect.pending,
        "reserve": effect.reserve,
        "available before": effect.balance_before,
        "available after": effect.balance_after,
    }
