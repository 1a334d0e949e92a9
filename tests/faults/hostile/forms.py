"""Multipart bodies, as a browser would send them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bursar.http.body import Upload

_BOUNDARY = "a-boundary-that-no-file-has"


def form(fields: Mapping[str, str], files: Sequence[tuple[str, Upload]] = ()) -> tuple[bytes, str]:
    """The body and its content type."""
    parts = [
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    for name, upload in files:
        kind = f"Content-Type: {upload.content_type}\r\n" if upload.content_type else ""
        head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"; filename="{upload.name}"\r\n{kind}\r\n'
        parts.append(head.encode() + upload.content + b"\r\n")
    return b"".join(parts) + f"--{_BOUNDARY}--\r\n".encode(), f"multipart/form-data; boundary={_BOUNDARY}"
