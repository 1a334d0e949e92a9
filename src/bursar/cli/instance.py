"""What this installation is: its version, its settings, its API's description; new secrets for a deployment."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bursar.cli import options, output

if TYPE_CHECKING:
    from bursar.settings import Settings

HIDDEN = "(set, not shown)"
_LOGIN = re.compile(r"(?<=://)([^/?#@:]*):[^/?#]*@")
_PASSWORD = re.compile(r"(?<=[?&])(password|sslpassword|passfile)=[^&]*", re.IGNORECASE)


def version(as_json: options.Json = False) -> None:
    """Print the version."""
    from bursar import __version__

    if as_json:
        output.json(output.encoded({"version": __version__}))
    else:
        output.say(f"bursar {__version__}")


def settings(data_dir: options.DataDir = None, as_json: options.Json = False) -> None:
    """List every setting: its value in force, its default, what it does."""
    from bursar.settings import load

    entries = listed(load(data_dir=data_dir))
    if as_json:
        output.json(output.encoded(entries))
    else:
        output.rows(("name", "value", "default", "description"), entries)


def listed(chosen: Settings) -> list[dict[str, str]]:
    """Each setting by the name of its environment variable; secrets only as far as they are none."""
    from bursar.settings import PREFIX, Settings

    return [
        {
            "name": PREFIX + name.upper(),
            "value": masked(name, getattr(chosen, name)),
            "default": masked(name, field.default),
            "description": field.description or "",
        }
        for name, field in Settings.model_fields.items()
    ]


def masked(name: str, value: Any) -> str:
    """A setting's value for the screen. Of a database's address, all but the password is shown."""
    from pydantic import SecretStr

    if isinstance(value, SecretStr):
        text = value.get_secret_value()
        return masked_url(text) if name.endswith("_url") else HIDDEN if text else ""
    if isinstance(value, bytes):
        return value.hex() if name == "seal_public_key" else HIDDEN if value else ""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def masked_url(text: str) -> str:
    return _PASSWORD.sub(r"\1=***", _LOGIN.sub(r"\1:***@", text))


def secrets(as_json: options.Json = False) -> None:
    """Print new secrets for a deployment whose processes run apart; `bursar serve` makes its own."""
    from bursar.settings import PREFIX
    from bursar.supervisor.secrets import new

    made = new()
    values = {
        "KEY_PEPPER": made.key_pepper.hex(),
        "SEAL_PUBLIC_KEY": made.seal_public_key.hex(),
        "SEAL_PRIVATE_KEY": made.seal_private_key.hex(),
        "OPERATOR_KEY": made.operator_key,
        "OPERATOR_KEY_HASH": made.operator_key_hash,
    }
    named = {PREFIX + name: value for name, value in values.items()}
    if as_json:
        output.json(output.encoded(named))
        return
    output.say("# API processes: KEY_PEPPER, SEAL_PUBLIC_KEY, OPERATOR_KEY_HASH.")
    output.say("# Workers: KEY_PEPPER, SEAL_PUBLIC_KEY, SEAL_PRIVATE_KEY. People: OPERATOR_KEY.")
    for name, value in named.items():
        output.say(f"{name}={value}")


def openapi(
    out: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file, not to the screen.")] = None,
) -> None:
    """Print the OpenAPI document."""
    import msgspec

    from bursar.app import routes_of
    from bursar.http.openapi import document
    from bursar.settings import load

    chosen = load()
    raw = msgspec.json.format(msgspec.json.encode(document(routes_of(chosen), chosen)), indent=2) + b"\n"
    if out is None:
        sys.stdout.buffer.write(raw)
    else:
        out.write_bytes(raw)
