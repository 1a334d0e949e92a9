"""Files on the wire: what they are, never what is in them."""

from __future__ import annotations

import msgspec


class Document(msgspec.Struct):
    id: int
    name: str
    mime: str
    size: int
