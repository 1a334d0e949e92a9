"""Every command under its name."""

from __future__ import annotations

from functools import cache
from typing import Any

import typer
import typer.main

from bursar.cli import accounts, audit, clock, events, instance, keys, ledger, processes, trail, webhooks


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
    for tool in (events.listen, events.trigger):
        app.command(rich_help_panel="Developer tools")(tool)
    groups = {
        "accounts": accounts.app,
        "keys": keys.app,
        "webhooks": webhooks.app,
        "clock": clock.app,
        "jobs": clock.jobs,
        "ledger": ledger.app,
        "audit": trail.added_to(audit.app),
        "events": events.app,
    }
    for name, group in groups.items():
        app.add_typer(group, name=name, rich_help_panel="A running instance")
    return typer.main.get_command(app)
