"""Has a file inspected by a process of its own, and holds the answer against what its sender said it was."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from bursar.core.errors import FileTooLarge
from bursar.features.uploads.errors import UnsupportedFileType
from bursar.http.body import Upload

log = structlog.get_logger()

LARGEST = 10 * 1024 * 1024
TIMEOUT_S = 8.0  # below what the database allows a transaction to idle
AT_ONCE = 4
EXTENSIONS = {"pdf": "application/pdf", "jpg": "image/jpeg", "jpeg": "image/jpeg", "png": "image/png"}
WEBP = "image/webp"
UNDECLARED = frozenset({"", "application/octet-stream", "text/plain"})  # the last is what a part without a type has

_INSPECTOR = Path(__file__).with_name("inspector.py")
_places: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}


@dataclass(frozen=True, slots=True)
class Inspected:
    """A file that may be kept."""

    name: str
    mime: str
    content: bytes


async def inspect(upload: Upload, *, field: str = "files", largest: int = LARGEST, webp: bool = False) -> Inspected:
    """The file as it will be kept. Its extension, its declared type and its content must agree.

    With `webp` such pictures are taken, too, and kept as PNG.
    """
    if len(upload.content) > largest:
        raise FileTooLarge(details={"field": field, "file": upload.name, "max_bytes": largest})
    if not upload.content:
        raise _unsupported(field, upload, "is empty")
    stem, _, extension = upload.name.rpartition(".")
    expected = WEBP if webp and extension.lower() == "webp" else EXTENSIONS.get(extension.lower())
    if expected is None:
        raise _unsupported(field, upload, f"must be named .pdf, .jpg, .jpeg{', .webp' if webp else ''} or .png")
    declared = upload.content_type.partition(";")[0].strip().lower().replace("image/jpg", "image/jpeg")
    if declared not in UNDECLARED and declared != expected:
        raise _unsupported(field, upload, "has a name and a declared type that differ")
    mime, kept = await _look_into(field, upload)
    if mime != expected:
        raise _unsupported(field, upload, "is not what its name says")
    if mime == WEBP:
        return Inspected(safe_name(f"{stem}.png"), "image/png", kept)
    return Inspected(safe_name(upload.name), mime, kept)


async def inspect_all(uploads: Sequence[Upload], *, field: str = "files") -> list[Inspected]:
    """Several files side by side, in the time of one; the first bad one refuses them all."""
    looks = [asyncio.create_task(inspect(upload, field=field)) for upload in uploads]
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return list(await asyncio.gather(*looks))
    except TimeoutError:
        raise UnsupportedFileType(details={field: ["the files take too long to look through"]}) from None
    finally:
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)


async def _look_into(field: str, upload: Upload) -> tuple[str, bytes]:
    loop = asyncio.get_running_loop()
    if loop not in _places:
        _places.clear()
        _places[loop] = asyncio.Semaphore(AT_ONCE)
    async with _places[loop]:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-I", str(_INSPECTOR), env={},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answer, _ = await child.communicate(upload.content)
        except TimeoutError:
            answer = b""
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
    first, _, kept = answer.partition(b"\n")
    if child.returncode != 0 or not first:
        log.warning("upload.inspector_died", returncode=child.returncode)
        raise _unsupported(field, upload, "cannot be read")
    verdict = json.loads(first)
    if "refused" in verdict:
        raise _unsupported(field, upload, verdict["refused"])
    return verdict["mime"], kept


def _unsupported(field: str, upload: Upload, reason: str) -> UnsupportedFileType:
    return UnsupportedFileType(details={field: [f"{safe_name(upload.name)} {reason}"]})


def safe_name(name: str) -> str:
    """A name that is safe in a header and on any disk."""
    kept = re.sub(r"[^A-Za-z0-9._ -]+", "_", name).strip(" .")[-100:]
    return kept or "file"
