"""The options that commands share, and the client that they choose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from bursar.cli.client import ClientError, OperatorClient

Url = Annotated[str | None, typer.Option("--url", help="Address of the service; default BURSAR_BASE_URL.")]
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Data directory that holds the operator key.")]
Json = Annotated[bool, typer.Option("--json", help="Print the data as JSON, for scripts.")]
Merchant = Annotated[str, typer.Argument(help="Merchant number or account id.")]
PageNumber = Annotated[int, typer.Option("--page", min=1, help="Page number.")]
PageSize = Annotated[int, typer.Option("--per-page", min=1, max=100, help="Rows a page.")]


def operator(url: str | None, data_dir: Path | None) -> OperatorClient:
    """A client with the operator key of the environment or, else, of the data directory."""
    from bursar.settings import load
    from bursar.supervisor.listen import local_operator_url

    settings = load(data_dir=data_dir)
    by_settings = local_operator_url(settings) if settings.ops_listen else settings.public_url
    key = settings.operator_key.get_secret_value() or _kept_key(settings.data_dir)
    return OperatorClient(url or by_settings, key)


def _kept_key(data_dir: Path) -> str:
    from bursar.supervisor.secrets import operator_key_path

    path = operator_key_path(data_dir)
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        raise ClientError(f"no operator key: set BURSAR_OPERATOR_KEY or --data-dir (there is no {path})") from None


def path(*parts: str | int) -> str:
    """A path of the operator API; what people typed stays within its segment."""
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)
