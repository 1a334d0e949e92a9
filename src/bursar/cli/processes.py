"""The commands that are processes: the service as a whole, or one part of it for a deployment of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bursar.settings import Settings

Host = Annotated[str | None, typer.Option(help="Address to listen on; default BURSAR_HOST or 127.0.0.1.")]
Port = Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on; default BURSAR_PORT or 8484.")]
PublicTest = Annotated[
    bool | None, typer.Option("--public-test", help="Let a test instance listen on an address that is not loopback.")
]
DataDir = Annotated[Path | None, typer.Option(help="Where database and secrets live; default BURSAR_DATA_DIR or data.")]
Lifeline = Annotated[int | None, typer.Option(hidden=True, help="A pipe whose end is the end of this process.")]


def serve(
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = None,
    demo: Annotated[bool | None, typer.Option(help="Make demo accounts; default on a test instance.")] = None,
    api_processes: Annotated[int | None, typer.Option(min=1, max=64, help="Number of API processes.")] = None,
    public_test: PublicTest = None,
) -> None:
    """Run everything: database, API processes and worker, until Ctrl-C."""
    import os
    import sys

    from bursar.settings import load
    from bursar.supervisor.serve import serve as supervise

    for_people = "console" if sys.stderr.isatty() and not os.environ.get("BURSAR_LOG_FORMAT") else None
    settings = load(
        host=host,
        port=port,
        data_dir=data_dir,
        api_processes=api_processes,
        public_test=public_test,
        log_format=for_people,
    )
    asyncio.run(supervise(settings, with_demo=settings.is_test if demo is None else demo))


def api(
    host: Host = None,
    port: Port = None,
    public_test: PublicTest = None,
    fd: Annotated[list[int] | None, typer.Option(help="An inherited listening socket, instead of an address.")] = None,
    lifeline: Lifeline = None,
) -> None:
    """Run one API process."""
    import uvloop

    from bursar.settings import load
    from bursar.supervisor import listen

    _follow(lifeline)
    settings = load(host=host, port=port, public_test=public_test)
    _require(settings, "database_url", "key_pepper", "seal_public_key")
    if fd:
        sockets = listen.inherited(fd)
    else:
        settings, sockets = listen.listeners(settings)

    async def run() -> None:
        from bursar.app import serve_api
        from bursar.supervisor import database

        await database.check(settings.database_url.get_secret_value())
        await serve_api(settings, sockets)

    uvloop.run(run())


def worker(lifeline: Lifeline = None) -> None:
    """Run one worker process."""
    import uvloop

    from bursar.settings import load

    _follow(lifeline)
    settings = load()
    _require(settings, "database_url", "key_pepper", "seal_public_key", "seal_private_key")

    async def run() -> None:
        from bursar.app import serve_worker
        from bursar.supervisor import database

        await database.check(settings.database_url.get_secret_value())
        await serve_worker(settings)

    uvloop.run(run())


def simulator(
    host: Host = None,
    fd: Annotated[int | None, typer.Option(help="An inherited listening socket, instead of an address.")] = None,
    lifeline: Lifeline = None,
) -> None:
    """Run the processor simulator of a test instance."""
    import uvloop

    from bursar.settings import load
    from bursar.supervisor import listen

    _follow(lifeline)
    settings = load(host=host)
    _require(settings, "database_url")
    if fd is not None:
        sockets = listen.inherited([fd])
    else:
        settings, listener = listen.simulator_listener(settings)
        sockets = [listener]

    async def run() -> None:
        from bursar.processors.simulator.serve import serve_simulator
        from bursar.supervisor import database

        await database.check(settings.database_url.get_secret_value())
        await serve_simulator(settings, sockets)

    uvloop.run(run())


def migrate(data_dir: DataDir = None) -> None:
    """Bring the database to this program's schema."""
    from bursar.settings import SettingsError, load
    from bursar.supervisor import database, directory
    from bursar.supervisor.errors import DirectoryInUse

    settings = load(data_dir=data_dir)
    owner_url = settings.migration_url.get_secret_value()
    if settings.database_url.get_secret_value() and not owner_url:
        raise SettingsError("BURSAR_MIGRATION_URL is not set; migrations run as the database's owner")

    async def run() -> None:
        if owner_url:
            _tell_applied([migration.name for migration in await database.apply(owner_url)])
            return
        try:
            with directory.held(settings.data_dir):
                async with database.embedded(settings) as server:
                    _tell_applied([migration.name for migration in await database.apply(server.urls().owner)])
        except DirectoryInUse as error:
            raise DirectoryInUse(f"{error}; its database was migrated when it started") from None

    asyncio.run(run())


def _tell_applied(names: list[str]) -> None:
    from bursar.cli import output

    output.say(f"Applied {', '.join(names)}." if names else "Nothing to do: the schema is up to date.")


def _follow(number: int | None) -> None:
    if number is not None:
        from bursar.supervisor import lifeline

        lifeline.follow(number)


def _require(settings: Settings, *names: str) -> None:
    """A process alone is told everything; `bursar serve` makes what is missing, `bursar secrets` prints new ones."""
    from bursar.settings import PREFIX, SettingsError
    from bursar.supervisor.secrets import KEY_BYTES

    for name in names:
        value = getattr(settings, name)
        text = value if isinstance(value, bytes) else value.get_secret_value()
        if not text:
            raise SettingsError(f"{PREFIX}{name.upper()} is not set; `bursar settings` says what it is")
        if isinstance(value, bytes) and len(value) != KEY_BYTES:
            raise SettingsError(f"{PREFIX}{name.upper()} must be {KEY_BYTES} bytes, in hexadecimal digits")
