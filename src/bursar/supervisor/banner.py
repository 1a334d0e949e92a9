"""What a person reads once the service is up: where it is, how to get in, what to try."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from bursar import __version__, demo
from bursar.demo import Demo, Party
from bursar.settings import Settings, load
from bursar.supervisor import listen


@dataclass(frozen=True)
class Started:
    """What the banner tells of."""

    settings: Settings
    took_s: float
    embedded: bool
    operator_key_file: Path | None  # None: the key came with the environment
    new_operator_key: str | None
    demo: Demo | None


def text(started: Started) -> str:
    settings = started.settings
    processes = f"{settings.api_processes} API process{'es' if settings.api_processes > 1 else ''} and a worker"
    lines = [
        f"Bursar {__version__}, a {settings.env} instance, is ready: {processes}, up in {started.took_s:.1f} s.",
        "",
        *_addresses(started),
    ]
    if started.demo is not None:
        lines += _demo(settings, started.demo)
    return "\n".join((*lines, "", "Ctrl-C stops everything; the data stays."))


def _addresses(started: Started) -> Iterator[str]:
    settings = started.settings
    url = settings.base_url.rstrip("/") or listen.local_url(settings)
    database = "embedded PostgreSQL" if started.embedded else "PostgreSQL elsewhere"
    kept = f"key in {_short(started.operator_key_file)}" if started.operator_key_file else "key from the environment"
    yield f"  API        {url}/v2"
    yield f"  Reference  {url}/docs"
    if settings.is_test:
        yield f"  Processor  {settings.simulator_public_url} (simulated)    Mailbox  {url}/mailbox"
    yield f"  Health     {url}/health    Metrics  {url}/metrics"
    yield f"  Operator   {listen.local_operator_url(settings)}/ops/v1, {kept}"
    if started.new_operator_key:
        yield f"             {started.new_operator_key} (shown this once)"
    yield f"  Data       {_short(settings.data_dir)}, {database}"


def _demo(settings: Settings, made: Demo) -> Iterator[str]:
    assert made.merchant is not None
    assert made.platform is not None
    url = listen.local_url(settings)
    yield ""
    yield f"Demo accounts (all keys are in {_short(settings.data_dir / demo.FILE)})"
    yield _party("merchant", made.merchant)
    yield _party("platform", made.platform)
    for party in made.connected:
        yield _party("connected", party)
    yield f"  {'webhook':<10} {made.webhook.get('url')} of {made.merchant.name}"
    yield ""
    yield "Try, in another terminal: read an account; read one as its platform; create a payment and open its page."
    for snippet in (
        demo.read_account(url, made.merchant),
        demo.read_connected(url, made.platform, made.connected[0]),
        demo.signed_write(url, made.merchant),
    ):
        yield ""
        yield indent(snippet, "  ")
    yield ""
    yield f"Then: {_command()} accounts list{_reach(settings)}; clock advance 45d; --help for more."


def _party(role: str, party: Party) -> str:
    return f"  {role:<10} {party.name:<14} {party.account_id}  {party.secret_key}"


def _command() -> str:
    """How the person reaches the command from where they are."""
    return "bursar" if shutil.which("bursar") else _short(Path(sys.argv[0]).resolve())


def _reach(settings: Settings) -> str:
    """The options without which a command would look elsewhere."""
    url, usual = listen.local_operator_url(settings), listen.local_operator_url(load())
    where = f" --url {url}" if url != usual else ""
    kept = f" --data-dir {_short(settings.data_dir)}" if settings.data_dir != load().data_dir else ""
    return where + kept


def _short(path: Path) -> str:
    """Relative to where the person is, when that is shorter."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
