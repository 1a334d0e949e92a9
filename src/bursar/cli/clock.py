"""`bursar clock` and `bursar jobs`: the time of a test instance, and what is due in it."""

from __future__ import annotations

from typing import Annotated

import typer

from bursar.cli import durations, options, output
from bursar.cli.options import operator

app = typer.Typer(help="The clock of a test instance.", no_args_is_help=True)
jobs = typer.Typer(help="Due work of a test instance.", no_args_is_help=True)


@app.command()
def show(url: options.Url = None, data_dir: options.DataDir = None, as_json: options.Json = False) -> None:
    """Show the instance's time."""
    reply = operator(url, data_dir).get("/clock")
    if as_json:
        output.json(reply.raw)
    else:
        output.record(reply.data)


@app.command()
def advance(
    by: Annotated[str, typer.Argument(help="How far: 45d, 36h, 90m, 30s, 2w, or 1d12h.")],
    url: options.Url = None,
    data_dir: options.DataDir = None,
    as_json: options.Json = False,
) -> None:
    """Move the clock and run, in order, everything that falls due on the way."""
    try:
        seconds = durations.seconds(by)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    reply = operator(url, data_dir).post("/clock/advance", {"seconds": seconds})
    if as_json:
        output.json(reply.raw)
        return
    moved = reply.data
    if moved["ran"]:
        output.rows(("at", "job", "rows"), moved["ran"])
    output.say(f"It is now {moved['now']}." if moved.get("state") is None else "Still running; ask the clock again.")


@jobs.callback()
def _group() -> None:
    """With one command alone, its name would otherwise not be needed."""


@jobs.command()
def run(url: options.Url = None, data_dir: options.DataDir = None, as_json: options.Json = False) -> None:
    """Run everything that is due now, until nothing is."""
    reply = operator(url, data_dir).post("/jobs/run", {})
    if as_json:
        output.json(reply.raw)
    else:
        output.rows(("job", "rows"), [{"job": job, "rows": rows} for job, rows in reply.data.items()])
