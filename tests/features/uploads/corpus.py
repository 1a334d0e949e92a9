"""Files, good and bad."""

from __future__ import annotations

import io
import struct
import zlib

from PIL import Image

from bursar.http.body import Upload


def image(kind: str = "JPEG", size: tuple[int, int] = (320, 200), mode: str = "RGB") -> bytes:
    content = io.BytesIO()
    Image.new(mode, size).save(content, kind)
    return content.getvalue()


def pdf(
    *objects: str, tail: bytes = b"", packed: str | None = None, type_: str = "/ObjStm", filters: str = "/FlateDecode",
    layers: int = 1, word: str = "stream\n",
) -> bytes:  # fmt: skip
    """A small PDF. `packed` is put into a compressed object stream, in so many layers."""
    parts = [b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n"]
    parts += [f"{n} 0 obj\n{text}\nendobj\n".encode("latin-1") for n, text in enumerate(objects, 3)]
    if packed is not None:
        stream = f"10 0 {packed}".encode()
        for _ in range(layers):
            stream = zlib.compress(stream)
        head = f"9 0 obj\n<< /Type {type_} /Filter {filters} /N 1 /First 5 >>\n{word}".encode()
        parts.append(head + stream + b"\nendstream\nendobj\n")
    return b"".join(parts) + b"trailer\n<< /Root 1 0 R >>\n%%EOF\n" + tail


def png_bomb() -> bytes:
    """A few bytes that claim to be 50,000 by 50,000 pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


def animated() -> bytes:
    content = io.BytesIO()
    frames = [Image.new("RGB", (8, 8), (n, 0, 0)) for n in (0, 200)]
    frames[0].save(content, "PNG", save_all=True, append_images=frames[1:])
    return content.getvalue()


def gif() -> bytes:
    content = io.BytesIO()
    Image.new("P", (8, 8)).save(content, "GIF")
    return content.getvalue()


GOOD = [
    Upload("scan.jpg", image(), "image/jpeg"),
    Upload("scan.JPEG", image(), "image/jpg"),
    Upload("grey.jpg", image(mode="L"), "application/octet-stream"),
    Upload("cmyk.jpg", image(mode="CMYK"), "image/jpeg"),
    Upload("scan.png", image("PNG"), "image/png; charset=binary"),
    Upload("see-through.png", image("PNG", mode="RGBA"), ""),
    Upload("palette.png", image("PNG", mode="P"), "image/png"),
    Upload("deep.png", image("PNG", mode="I;16"), "image/png"),
    Upload("large.jpg", image(size=(5000, 4000)), "image/jpeg"),
    Upload("letter.pdf", pdf("<< /Type /Page /Contents 4 0 R >>"), "application/pdf"),
    Upload("packed.pdf", pdf(packed="<< /Type /Page >>"), "application/pdf"),
    Upload("picture.pdf", pdf(packed="0 0 1 rg /Im0 Do", type_="/Other"), "application/pdf"),
    Upload("ascii.pdf", pdf("<< /Filter /ASCII85Decode /Subtype /Image >>"), "application/pdf"),
    Upload("packedplain.pdf", pdf(packed="<< /Type /Page >>", layers=2), "text/plain"),
    Upload("unpacked.pdf", pdf("<< /JSomething 1 /Launcher 2 >>"), "application/pdf"),
]

BAD = [
    Upload("empty.pdf", b"", "application/pdf"),
    Upload("noname", image(), "image/jpeg"),
    Upload("page.html", b"<script>alert(1)</script>", "text/html"),
    Upload("page.pdf", b"<script>alert(1)</script>", "application/pdf"),
    Upload("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "image/svg+xml"),
    Upload("drawing.png", b"<svg onload='alert(1)'/>", "image/png"),
    Upload("moving.png", animated(), "image/png"),
    Upload("moving.gif", gif(), "image/gif"),
    Upload("gif.png", gif(), "image/png"),
    Upload("scan.png", image(), "image/png"),
    Upload("scan.jpg", image(), "image/png"),
    Upload("scan.pdf", image(), "application/pdf"),
    Upload("tool.exe", b"MZ" + b"\0" * 100, "application/octet-stream"),
    Upload("tool.jpg", b"MZ" + b"\0" * 100, "image/jpeg"),
    Upload("archive.pdf", b"PK\x03\x04" + b"\0" * 100, "application/pdf"),
    Upload("cut.png", image("PNG")[:50], "image/png"),
    Upload("cut.jpg", b"\xff\xd8\xff\xe0" + b"\0" * 20, "image/jpeg"),
    Upload("bomb.png", png_bomb(), "image/png"),
    Upload("cut.pdf", pdf()[:40], "application/pdf"),
    Upload("both.pdf", pdf(tail=b"PK\x03\x04" + b"\0" * 50), "application/pdf"),
    Upload("late.pdf", b"<html>" + pdf(), "application/pdf"),
    Upload("script.pdf", pdf("<< /S /JavaScript /JS (app.alert(1)) >>"), "application/pdf"),
    Upload("hidden.pdf", pdf("<< /S /J#61va#53cript >>"), "application/pdf"),
    Upload("short.pdf", pdf("<< /AA << /O << /J#53 (x) >> >> >>"), "application/pdf"),
    Upload("launch.pdf", pdf("<< /S /Launch /F (cmd.exe) >>"), "application/pdf"),
    Upload("attached.pdf", pdf("<< /Names << /EmbeddedFiles 5 0 R >> >>"), "application/pdf"),
    Upload("attached2.pdf", pdf("<< /Type /EmbeddedFile >>"), "application/pdf"),
    Upload("locked.pdf", pdf("<< /Encrypt 5 0 R >>"), "application/pdf"),
    Upload("form.pdf", pdf("<< /AcroForm << /XFA 6 0 R >> >>"), "application/pdf"),
    Upload("media.pdf", pdf("<< /Subtype /RichMedia >>"), "application/pdf"),
    Upload("send.pdf", pdf("<< /S /SubmitForm >>"), "application/pdf"),
    Upload("packedscript.pdf", pdf(packed="<< /S /JavaScript /JS (x) >>"), "application/pdf"),
    Upload("packedhidden.pdf", pdf(packed="<< /S /#4aavaScript >>"), "application/pdf"),
    Upload("packedodd.pdf", pdf(packed="<< >>", filters="[/ASCII85Decode /FlateDecode]"), "application/pdf"),
    Upload("packedsaid.pdf", pdf(packed="<< /S /JavaScript >>", type_="/Metadata"), "application/pdf"),
    Upload("packedfake.pdf", pdf(packed="<< /S /JavaScript >>", type_="/ObjStm /X ( obj) endobj"), "application/pdf"),
    Upload("packedref.pdf", pdf(packed="<< /S /JavaScript >>", filters="5 0 R"), "application/pdf"),
    Upload("packedrows.pdf", pdf(packed="<< >>", type_="/ObjStm /DecodeParms << /Predictor 12 >>"), "application/pdf"),
    Upload("packedtwice.pdf", pdf(packed="<< /S /JavaScript >>", layers=2, filters="[/Fl /Fl]"), "application/pdf"),
    Upload("packedtwicesaid.pdf", pdf(packed="<< /S /JavaScript >>", layers=2, type_="/X"), "application/pdf"),
    Upload("packedmany.pdf", pdf(packed="<< >>", layers=5), "application/pdf"),
    Upload("packedloosely.pdf", pdf(packed="<< /S /JavaScript >>", type_="/X", word="stream \n"), "application/pdf"),
    Upload("packedreturn.pdf", pdf(packed="<< /S /JavaScript >>", type_="/X", word="stream\r"), "application/pdf"),
    Upload("streams.pdf", pdf("stream\n" * 100_001), "application/pdf"),
    Upload("packedbomb.pdf", pdf(packed=" " * (70 * 1024 * 1024)), "application/pdf"),
]
