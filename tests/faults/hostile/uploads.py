"""Files that must not be kept, and files that must: sent as attachments of tickets, over the API."""

from __future__ import annotations

import asyncio
import io
import random
import struct
import zlib
from collections.abc import Iterator

from PIL import Image

from bursar.http.body import Upload
from tests.faults.hostile.forms import form
from tests.faults.report import Report
from tests.features.uploads import corpus
from tests.features.uploads.corpus import image, pdf
from tests.support.house import House, house, resident_mib
from tests.support.service import Party

PDF, PNG, JPEG = "application/pdf", "image/png", "image/jpeg"
ACTIVE = (
    "JavaScript", "JS", "Launch", "EmbeddedFile", "EmbeddedFiles", "RichMedia", "XFA", "SubmitForm", "ImportData",
    "Encrypt",
)  # fmt: skip
OTHERS = {
    "gif": b"GIF89a" + bytes(40), "bmp": b"BM" + bytes(60), "tiff": b"II*\0" + bytes(60),
    "gzip": b"\x1f\x8b" + bytes(60),
    "elf": b"\x7fELF" + bytes(60), "exe": b"MZ" + bytes(60), "zip": b"PK\3\4" + bytes(60),
    "ico": b"\0\0\1\0" + bytes(60),
    "html": b"<!doctype html><script>alert(1)</script>", "svg": b"<svg onload='alert(1)'/>", "php": b"<?php system(1);",
    "shell": b"#!/bin/sh\nid\n", "rtf": b"{\\rtf1 x}", "postscript": b"%!PS-Adobe-3.0\n", "psd": b"8BPS" + bytes(60),
    "mp4": b"\0\0\0\x18ftypmp42" + bytes(60), "mp3": b"ID3" + bytes(60), "heic": b"\0\0\0\x18ftypheic" + bytes(60),
    "text": b"hello", "null bytes": bytes(100),
}  # fmt: skip
KEPT_LEAST, REFUSED_LEAST = 20, 60
AT_ONCE = 4


async def run(tier: str, seed: int) -> Report:
    del tier  # the whole corpus takes less than a minute
    report = Report("uploads")
    chance = random.Random(seed)
    bad, good = [*corpus.BAD, *generated_bad(chance)], [*corpus.GOOD, *generated_good()]
    async with house() as serving:
        merchant = await serving.open_account()
        [pid] = serving.api_pids()
        before = resident_mib(pid)
        places = asyncio.Semaphore(AT_ONCE)

        async def one(upload: Upload, *, keep: bool) -> None:
            async with places:
                await _send(serving, merchant, upload, keep=keep, report=report)

        await asyncio.gather(*(one(upload, keep=False) for upload in bad), *(one(upload, keep=True) for upload in good))
        grown = resident_mib(pid) - before
        report.expect(grown < 100, f"the process grew by {grown:.0f} MiB")
    report.expect(report.done.get("kept", 0) >= KEPT_LEAST, "too few good files")
    report.expect(report.done.get("refused", 0) >= REFUSED_LEAST, "too few bad files")
    return report


async def _send(serving: House, merchant: Party, upload: Upload, *, keep: bool, report: Report) -> None:
    body, content_type = form({"subject": "A file", "body": "Look at this."}, [("attachments", upload)])
    reply = await serving.send(merchant, "POST", "/support/tickets", body, **{"Content-Type": content_type})
    if keep:
        report.expect(reply.status == 201, f"{upload.name} should be kept: {reply.status} {reply.body[:300]!r}")
        report.count("kept")
        return
    fits = reply.status in (413, 422) and reply.code in ("unsupported_file_type", "file_too_large", "validation_error")
    report.expect(fits, f"{upload.name} should be refused: {reply.status} {reply.body[:300]!r}")
    report.count("refused")


# Bad -----------------------------------------------------------------------------------------------------------


def generated_bad(chance: random.Random) -> Iterator[Upload]:
    for name, content in OTHERS.items():
        for extension, kind in (("png", PNG), ("jpg", JPEG), ("pdf", PDF)):
            yield Upload(f"{name}.{extension}", content, kind)
    yield from _active(chance)
    yield from _broken(chance)
    yield from _floods()


def _escaped(name: str, chance: random.Random) -> str:
    place = chance.randrange(len(name))
    return f"{name[:place]}#{ord(name[place]):02{chance.choice('xX')}}{name[place + 1 :]}"


def _active(chance: random.Random) -> Iterator[Upload]:
    for word in ACTIVE:
        hidden = _escaped(word, chance)
        yield Upload(f"plain-{word}.pdf", pdf(f"<< /X /{word} >>"), PDF)
        yield Upload(f"tight-{word}.pdf", pdf(f"<</X/{word}/Y 1>>"), PDF)
        yield Upload(f"escaped-{word}.pdf", pdf(f"<< /{hidden} 1 >>"), PDF)
        yield Upload(f"packed-{word}.pdf", pdf(packed=f"<< /{word} 1 >>"), PDF)
        yield Upload(f"packed-escaped-{word}.pdf", pdf(packed=f"<< /{hidden} 1 >>"), PDF)
    script = "<< /S /JavaScript /JS (app.alert(1)) >>"
    for name, word in (("return", "stream\r"), ("space", "stream \n"), ("tab", "stream\t\r\n")):
        for layers in (1, 2, 3):
            yield Upload(f"packed-{name}-{layers}.pdf", pdf(packed=script, word=word, layers=layers), PDF)
            yield Upload(f"said-{name}-{layers}.pdf", pdf(packed=script, word=word, layers=layers, type_="/X"), PDF)


def _broken(chance: random.Random) -> Iterator[Upload]:
    whole = {"png": (_noise("PNG"), PNG), "jpg": (_noise("JPEG"), JPEG)}
    for extension, (content, kind) in whole.items():
        for number in range(8):
            cut = chance.randrange(20, len(content) - 200)
            yield Upload(f"cut-{number}.{extension}", content[:cut], kind)
    for number in range(4):
        content = pdf("<< /Type /Page >>")
        yield Upload(f"cut-{number}.pdf", content[: chance.randrange(10, len(content) - 8)], PDF)
    yield Upload("tail.pdf", pdf(tail=b"<script>alert(1)</script>"), PDF)
    yield Upload("zip-tail.pdf", pdf(tail=b"PK\5\6" + bytes(18)), PDF)
    yield Upload("no-end.pdf", pdf().replace(b"%%EOF", b""), PDF)
    yield Upload("before.pdf", b"MZ" + pdf(), PDF)


def _floods() -> Iterator[Upload]:
    for width, height in (
        (50_000, 50_000),
        (2**31 - 1, 1),
        (1, 2**31 - 1),
        (2**31 - 1, 2**31 - 1),
        (0, 0),
        (7000, 6000),
    ):
        yield Upload(f"{width}x{height}.png", _claims(width, height), PNG)
    flat = image("JPEG", (8, 8))
    at = flat.index(b"\xff\xc0") + 5
    yield Upload("65500x65500.jpg", flat[:at] + struct.pack(">HH", 65500, 65500) + flat[at + 4 :], JPEG)
    yield Upload("frames.jpg", _mpo(), JPEG)
    yield Upload("text.png", _png_with(b"zTXt", b"x\0\0" + zlib.compress(bytes(200_000_000))), PNG)
    yield Upload("profile.png", _png_with(b"iCCP", b"x\0\0" + zlib.compress(bytes(200_000_000))), PNG)
    yield Upload("streams.pdf", pdf().replace(b"trailer", b"stream\n" * 1_000_000 + b"trailer"), PDF)
    bomb = zlib.compress(b"10 0 " + bytes(300_000_000))
    yield Upload(
        "gigabyte.pdf", pdf().replace(b"trailer", (b"stream\n" + bomb + b"\nendstream\n") * 4 + b"trailer"), PDF
    )


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _claims(width: int, height: int) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(bytes(100)))
        + _chunk(b"IEND", b"")
    )


def _png_with(name: bytes, data: bytes) -> bytes:
    """A small picture with one more chunk after its header."""
    plain = image("PNG", (8, 8))
    return plain[:33] + _chunk(name, data) + plain[33:]


def _noise(kind: str) -> bytes:
    content = io.BytesIO()
    Image.effect_noise((160, 120), 80).convert("RGB").save(content, kind)
    return content.getvalue()


def _mpo() -> bytes:
    content = io.BytesIO()
    frames = [Image.new("RGB", (8, 8), (n, 0, 0)) for n in (0, 200)]
    frames[0].save(content, "MPO", save_all=True, append_images=frames[1:])
    return content.getvalue()


# Good ----------------------------------------------------------------------------------------------------------


def generated_good() -> Iterator[Upload]:
    for mode in ("1", "L", "RGB"):
        yield Upload(f"mode-{mode}.png", image("PNG", (64, 48), mode), PNG)
    yield Upload("noise.png", _noise("PNG"), PNG)
    yield Upload("noise.jpg", _noise("JPEG"), JPEG)
    yield Upload("one-pixel.png", image("PNG", (1, 1)), PNG)
    yield Upload("long.png", image("PNG", (10_000, 2)), PNG)
    yield Upload("a name with spaces.pdf", pdf("<< /Type /Page >>"), PDF)
    yield Upload("updated.pdf", pdf("<< /Type /Page >>") + b"4 0 obj\n<< >>\nendobj\ntrailer\n<< >>\n%%EOF\n", PDF)
    yield Upload("tail.jpg", image("JPEG") + b"PK\3\4 what follows the picture is left out", JPEG)
    yield Upload("tail.png", image("PNG") + b"<?php what follows the picture is left out", PNG)
