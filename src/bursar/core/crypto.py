"""Secrets at rest: keyed hashes for look-up, sealed boxes that only the worker opens, replies sealed for their reader.

The API process holds the pepper and the public half of the sealing key, the worker alone its private half, so a
database dump with the API's configuration recovers no key.
"""

from __future__ import annotations

import hmac
import os
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, PublicKey, SealedBox


class CannotOpen(ValueError):
    """The sealed text is damaged, belongs elsewhere, or was sealed for another key."""


def lookup_hash(pepper: bytes, key: str) -> str:
    """What is stored of a secret to find it again: useless without the secret itself."""
    return hmac.digest(pepper, key.encode(), "sha256").hex()


def hmac_hex(secret: str, message: bytes) -> str:
    return hmac.digest(secret.encode(), message, "sha256").hex()


class HmacKey:
    """HMAC-SHA256 with a key that is used often: what it begins with is hashed once, which is half of the work."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        block = (sha256(key).digest() if len(key) > sha256().block_size else key).ljust(sha256().block_size, b"\0")
        self._inner = sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = sha256(bytes(byte ^ 0x5C for byte in block))

    def digest(self, message: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(message)
        outer.update(inner.digest())
        return outer.digest()


def same(left: str, right: str) -> bool:
    """Constant-time comparison of two texts."""
    return hmac.compare_digest(left.encode(), right.encode())


@dataclass(frozen=True, repr=False)
class Sealer:
    """Seals secrets for the worker. `context` (owner and purpose) is bound in: a moved ciphertext does not open."""

    public_key: bytes

    @cached_property
    def _box(self) -> SealedBox[Any]:
        return SealedBox(PublicKey(self.public_key))

    def seal(self, context: str, secret: str) -> bytes:
        return self._box.encrypt(context.encode() + b"\0" + secret.encode())


@dataclass(frozen=True, repr=False)
class Opener:
    """The worker's half: opens what any `Sealer` sealed."""

    private_key: bytes

    @cached_property
    def _box(self) -> SealedBox[Any]:
        return SealedBox(PrivateKey(self.private_key))

    def open(self, context: str, sealed: bytes) -> str:
        try:
            found, _, secret = self._box.decrypt(sealed).partition(b"\0")
        except CryptoError as error:
            raise CannotOpen("sealed for another key, or damaged") from error
        if found != context.encode():
            raise CannotOpen("sealed for another purpose")
        return secret.decode()


@dataclass(frozen=True, repr=False)
class Vault:
    """What an API process may do with secrets: find them again and lock them away, never read them back."""

    pepper: bytes
    sealer: Sealer

    def lookup(self, secret: str) -> str:
        return lookup_hash(self.pepper, secret)

    def seal(self, context: str, secret: str) -> bytes:
        return self.sealer.seal(context, secret)


def new_sealing_pair() -> tuple[bytes, bytes]:
    """(private, public)."""
    private = PrivateKey.generate()
    return bytes(private), bytes(private.public_key)


def seal_for_reader(secret: str, plain: bytes, context: bytes) -> bytes:
    """Encrypts a reply that shows a secret once, so that only a caller who presents the same key can replay it."""
    nonce = os.urandom(12)
    return nonce + AESGCM(_reader_key(secret)).encrypt(nonce, plain, context)


def open_for_reader(secret: str, sealed: bytes, context: bytes) -> bytes:
    try:
        return AESGCM(_reader_key(secret)).decrypt(sealed[:12], sealed[12:], context)
    except (InvalidTag, ValueError) as error:  # the second for what is too short to be sealed at all
        raise CannotOpen("sealed for another reader, or damaged") from error


def _reader_key(secret: str) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=b"bursar stored reply").derive(secret.encode())
