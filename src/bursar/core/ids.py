"""Identifiers people see: account ids, API keys, webhook secrets, request ids.

Shapes and check digits only; what is stored of a key is the business of `core.crypto`.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
import time
import zlib
from functools import lru_cache

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's: no i, l, o, u

KEY_PREFIXES = {
    "secret": "sk_live_",
    "test": "sk_test_",
    "restricted": "rk_live_",
    "public": "pk_live_",
    "client": "ck_live_",
}

_KEY = re.compile(r"(sk_live_|sk_test_|rk_live_|pk_live_|ck_live_)([0-9A-Za-z]{32})([0-9A-Za-z]{6})", re.ASCII)
_ACCOUNT = re.compile(r"(?:(acc[0-9a-z]{16})_)?([1-9][0-9]{0,14})", re.ASCII)


def random_text(alphabet: str, length: int) -> str:
    """Uniform and unpredictable; one draw for all of it, since every event has one."""
    base = len(alphabet)
    number, letters = secrets.randbelow(base**length), []
    for _ in range(length):
        number, letter = divmod(number, base)
        letters.append(alphabet[letter])
    return "".join(letters)


def new_key(kind: str) -> str:
    """A key of the given kind: prefix, 32 random base62 characters, 6 of checksum."""
    body = KEY_PREFIXES[kind] + random_text(BASE62, 32)
    return body + _checksum(body)


def key_kind(key: str) -> str | None:
    """The kind of a well-formed key, or None when its shape or checksum is wrong."""
    match = _KEY.fullmatch(key)
    if match is None or _checksum(key[:-6]) != match[3]:
        return None
    return next(kind for kind, prefix in KEY_PREFIXES.items() if prefix == match[1])


def key_hint(key: str) -> str:
    """What may be shown of a key after it was issued."""
    return f"{key[:8]}…{key[-4:]}"


def _checksum(body: str) -> str:
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(6):
        number, remainder = divmod(number, 62)
        digits = BASE62[remainder] + digits
    return digits


def new_account_id(merchant_id: int) -> str:
    return f"acc{random_text(BASE32, 16)}_{merchant_id}"


def parse_account_id(text: str) -> tuple[int, str | None] | None:
    """The merchant number and, unless the legacy bare number was given, the full id. None: no account id."""
    match = _ACCOUNT.fullmatch(text)
    if match is None:
        return None
    return int(match[2]), text if match[1] else None


def new_webhook_secret() -> str:
    return "whsec_" + random_text(BASE62, 32)


_process = secrets.token_hex(6)
_requests = itertools.count(secrets.randbits(24))


def new_request_id() -> str:
    """Unique, cheap, and no secret: a mark of this process and a number."""
    return f"req_{_process}{next(_requests):012x}"


def new_event_id() -> str:
    """Begins with the real time, so that ids sort as they were made and an index of them stays tight."""
    return event_id_at(time.time()) + os.urandom(15).translate(_LETTERS).decode()  # 85 bits


def event_id_at(moment: float) -> str:
    """What the ids of events begin with at a moment of real time, in microseconds; also sorts before all of them."""
    quarter, rest = divmod(int(moment * 1_000_000), 62**4)
    first, second = divmod(rest, 62**2)
    return f"evt_{_five_digits(quarter)}{_PAIRS[first]}{_PAIRS[second]}"


_LETTERS = (BASE62 * 5).encode()[:256]  # of every byte; the first ones come a little more often
_PAIRS = [first + second for first in BASE62 for second in BASE62]


@lru_cache(maxsize=16)
def _five_digits(quarter: int) -> str:
    """To the base 62: the quarter of a minute, more or less, that an event falls into."""
    rest, second = divmod(quarter, 62**2)
    return BASE62[rest // 62**2] + _PAIRS[rest % 62**2] + _PAIRS[second]
