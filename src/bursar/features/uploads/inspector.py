"""Looks into one file that a stranger sent. Runs as a process of its own, with little memory and little time.

Reads the file from standard input; writes one line of JSON and, if the file is good, the bytes to keep: an image
decoded and encoded anew, so that nothing but its pixels is left, or the PDF as it came. It imports nothing of the
service, so that it starts quickly and holds no secret.
"""

from __future__ import annotations

import io
import json
import re
import resource
import sys
import zlib

MEMORY = 1024 * 1024 * 1024
CPU_S = 6
PIXELS_LARGEST = 40_000_000
PIXELS_MANY = 2_000_000  # above this, speed matters more than size
INFLATED_LARGEST = 64 * 1024 * 1024
TRAILER_LARGEST = 1024
STREAMS_MOST = 100_000
LAYERS_MOST = 4  # of compression, one inside the other

# What a document has no need of, and a reader might run, open or send.
ACTIVE = frozenset(
    b"JavaScript JS Launch EmbeddedFile EmbeddedFiles RichMedia XFA SubmitForm ImportData Encrypt".split()
)

# Filters under which an object stream could hide from `hidden_objects`.
UNUSUAL = frozenset(b"LZWDecode ASCII85Decode ASCIIHexDecode RunLengthDecode Crypt".split())

LOOK_AT = 4096
_ZLIB = b"\x78"

_PACKED = re.compile(rb"\s*[0-9]+\s+[0-9]+\s")
_NAME = re.compile(rb"/([^\x00\t\n\x0c\r ()<>\[\]{}/%]+)")
_ESCAPE = re.compile(rb"#([0-9A-Fa-f]{2})")
_STREAM = re.compile(rb"stream[\x00\t\x0c ]*(?:\r\n|\n|\r)")  # readers are lenient about what ends the word


class Refused(Exception):
    """The file is not one that is kept; the message says why."""


def inspect(content: bytes) -> tuple[str, bytes]:
    """The type that the content shows, and the bytes to keep."""
    if content.startswith(b"%PDF-"):
        check_pdf(content)
        return "application/pdf", content
    return clean_image(content)


def clean_image(content: bytes) -> tuple[str, bytes]:
    from PIL import Image, ImageOps

    formats = {b"\x89PNG\r\n\x1a\n": "PNG", b"\xff\xd8\xff": "JPEG"}
    kind = next((name for magic, name in formats.items() if content.startswith(magic)), None)
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        kind = "WEBP"  # where it is taken, it is kept as PNG
    if kind is None:
        raise Refused("is not a PDF, JPEG or PNG")
    Image.MAX_IMAGE_PIXELS = PIXELS_LARGEST
    try:
        image: Image.Image = Image.open(io.BytesIO(content), formats=[kind])
        if image.width * image.height > PIXELS_LARGEST:
            raise Refused("has more than 40 million pixels")
        if getattr(image, "n_frames", 1) > 1:
            raise Refused("has more than one frame")
        image.load()
        if kind == "JPEG":
            image = ImageOps.exif_transpose(image)
            plain = image.convert("L" if image.mode == "L" else "RGB")
        else:
            plain = image if image.mode in ("L", "LA", "RGB", "RGBA") else image.convert("RGBA")
        kept = io.BytesIO()
        plain.info.clear()
        if kind == "JPEG":
            plain.save(kept, "JPEG", quality=90)
        else:
            plain.save(kept, "PNG", compress_level=6 if plain.width * plain.height < PIXELS_MANY else 1)
    except Refused:
        raise
    except Exception as error:  # whatever a hostile image provokes
        raise Refused("cannot be read as an image") from error
    return f"image/{kind.lower()}", kept.getvalue()


def check_pdf(content: bytes) -> None:
    end = content.rfind(b"%%EOF")
    if end < 0 or len(content) - end > TRAILER_LARGEST or content[end + 5 :].strip():
        raise Refused("is not a complete PDF")
    if active := ACTIVE & _names(content):
        raise Refused(_reason(active))
    for found in hidden_objects(content):
        if active := ACTIVE & _names(found):
            raise Refused(_reason(active))


def _reason(active: frozenset[bytes] | set[bytes]) -> str:
    return "is encrypted" if b"Encrypt" in active else "has active content or attachments"


def _names(text: bytes) -> set[bytes]:
    """Every name in PDF syntax, its escapes undone: /J#61vaScript is /JavaScript."""
    return {
        _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), name) if b"#" in name else name
        for name in _NAME.findall(text)
    }


def hidden_objects(content: bytes) -> list[bytes]:
    """The objects that are packed into compressed streams, whatever their dictionaries claim to be.

    Every stream that inflates to the head of an object stream (pairs of numbers) is unpacked. What could be packed in
    a way that this does not see through is refused.
    """
    names = _names(content)
    if {b"ObjStm", b"XRef"} & names and UNUSUAL & names:
        raise Refused("packs its objects in an unusual way")
    unpacked: list[bytes] = []
    budget = INFLATED_LARGEST
    previous = 0
    view = memoryview(content)
    for count, match in enumerate(_STREAM.finditer(content)):
        if count >= STREAMS_MOST:
            raise Refused("has too many parts")
        head, previous = _names(content[previous : match.start()]), match.end()
        if {b"ObjStm", b"DecodeParms"} <= head:
            raise Refused("packs its objects in an unusual way")
        if b"ObjStm" in head and b"Filter" not in head:
            continue  # plain text, which was looked through with the rest
        inflated = inflate(view[match.end() :], budget, wholly=b"ObjStm" in head)
        if inflated is not None:
            budget -= len(inflated)
            unpacked.append(inflated)
    return unpacked


def inflate(stream: memoryview | bytes, budget: int, *, wholly: bool) -> bytes | None:
    """What a stream holds, however many layers it is packed in; None when that is no objects.

    `wholly`: it claims to hold objects, so what cannot be unpacked or turns out to be something else is refused.
    """
    for _ in range(LAYERS_MOST):
        try:
            start = zlib.decompressobj().decompress(stream[:LOOK_AT], 64)
            if not (wholly or _PACKED.match(start) or start[:1] == _ZLIB):
                return None
            stream = zlib.decompressobj().decompress(stream, budget + 1)
        except zlib.error as error:
            if wholly:
                raise Refused("is damaged") from error
            return None  # not a compressed stream
        if len(stream) > budget:
            raise Refused("unpacks to too much")
        if _PACKED.match(stream) or not stream.strip():
            return bytes(stream)
    if wholly:
        raise Refused("packs its objects in an unusual way")
    return None


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    try:
        mime, kept = inspect(sys.stdin.buffer.read())
    except Refused as error:
        answer, kept = {"refused": str(error)}, b""
    except MemoryError:
        answer, kept = {"refused": "needs too much memory"}, b""
    else:
        answer = {"mime": mime}
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + kept)


if __name__ == "__main__":
    main()
