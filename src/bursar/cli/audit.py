"""`bursar audit verify`: proves the ledger, from the database itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bursar.cli import options, output

if TYPE_CHECKING:
    from bursar.ledger.audit import Report

app = typer.Typer(help="The ledger's proof.", no_args_is_help=True)


@app.command()
def verify(
    anchor: Annotated[str | None, typer.Option(help="A head noted earlier; it must still be in the chain.")] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also hold payments, keys, events and deliveries to every invariant.")
    ] = False,
    data_dir: options.DataDir = None,
    as_json: options.Json = False,
) -> None:
    """Prove that journals, wallets and seals agree. Exit status 0 if they do, 1 if not."""
    report = _verified(anchor, data_dir, deep=deep, quiet=as_json)
    if as_json:
        output.json(output.encoded(report))
    else:
        output.rows(
            ("", "check", "detail"),
            (
                {"": "ok" if check.ok else "WRONG", "check": check.name, "detail": check.detail}
                for check in report.checks
            ),
        )
        output.say(f"Head of the seals: {report.head or 'none yet'}")
        output.say("The ledger is sound." if report.ok else "The ledger is NOT sound.")
    if not report.ok:
        raise typer.Exit(1)


def _verified(anchor: str | None, data_dir: Path | None, *, deep: bool, quiet: bool) -> Report:
    import asyncio

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from bursar.cli.ledger import database_url
    from bursar.features.payments.service import CHECKS
    from bursar.ledger import audit
    from bursar.ledger.deep import checks as deep_checks

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=quiet)
    task = bar.add_task("starting", total=None)

    def step(name: str, done: int, total: int) -> None:
        bar.update(task, description=name.replace("_", " "), completed=done, total=total)

    async def work() -> Report:
        more = (*CHECKS, *deep_checks()) if deep else CHECKS
        async with audit.session(database_url(data_dir)) as session:
            return await audit.verify(session, anchor=anchor, progress=step, more=more)

    with bar:
        return asyncio.run(work())
