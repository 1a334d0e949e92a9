"""Every command under its name."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import typer
import typer.main

from bursar.cli import accounts, audit, clock, instance, keys, ledger, processes, trail, webhooks


@cache
def command() -> Any:
    app = typer.Typer(
        name="bursar",
        help="Run a payments service and look after it.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    for run in (processes.serve, processes.api, processes.worker, processes.simulator, processes.migrate):
        app.command(rich_help_panel="Processes")(run)
    for show in (instance.settings, instance.secrets, instance.openapi, instance.version):
        app.command(rich_help_panel="This installation")(show)
    groups = {
        "accounts": accounts.app,
        "keys": keys.app,
        "webhooks": webhooks.app,
        "clock": clock.app,
        "jobs": clock.jobs,
        "ledger": ledger.app,
        "audit": trail.added_to(audit.app),
        "events": _optional("events"),
    }
    for name, group in groups.items():
        if group is not None:
            app.add_typer(group, name=name, rich_help_panel="A running instance")
    return typer.main.get_command(app)


def _optional(name: str) -> typer.Typer | None:
    """A group of commands that this build may not have."""
    full = f"bursar.cli.{name}"
    try:
        group = importlib.import_module(full).app
    except ModuleNotFoundError as error:
        if error.name != full:
            raise
        return None
    assert isinstance(group, typer.Typer)
    return group
