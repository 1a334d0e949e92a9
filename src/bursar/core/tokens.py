"""Private links: a token is the pair (account, id) under AES-SIV, so nothing is stored and none can be guessed.

The page's name is bound in: a token of one page means nothing on another. Each token begins with a byte that tells
which key made it, so that a new key can take over while the links of the old one still work.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from dataclasses import dataclass
from functools import cached_property

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_PAIR = struct.Struct(">qq")
_LENGTH = 1 + 16 + _PAIR.size  # key, SIV, pair


def derive_key(root: bytes, purpose: str, length: int = 32) -> bytes:
    """A key of its own for one purpose."""
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=purpose.encode()).derive(root)


@dataclass(frozen=True, repr=False)
class PageKeys:
    """The key that makes tokens, and an older one that is still read."""

    current: bytes
    previous: bytes = b""

    @cached_property
    def _maker(self) -> tuple[bytes, AESSIV]:
        return _mark(self.current), AESSIV(self.current)

    def token(self, page: str, account_id: int, object_id: int) -> str:
        mark, cipher = self._maker
        sealed = cipher.encrypt(_PAIR.pack(account_id, object_id), [page.encode()])
        return base64.urlsafe_b64encode(mark + sealed).decode().rstrip("=")

    def read(self, page: str, token: str) -> tuple[int, int] | None:
        """Account and id, or None for whatever is not a token of this page."""
        try:
            raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        if len(raw) != _LENGTH:
            return None
        for key in (self.current, self.previous):
            if key and raw[:1] == _mark(key):
                try:
                    account_id, object_id = _PAIR.unpack(AESSIV(key).decrypt(raw[1:], [page.encode()]))
                except InvalidTag:
                    continue
                return account_id, object_id
        return None


def _mark(key: bytes) -> bytes:
    return hashlib.sha256(b"bursar page key\0" + key).digest()[:1]
