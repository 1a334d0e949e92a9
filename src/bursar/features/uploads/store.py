"""Where the bytes of uploads are. The database keeps them in encrypted chunks, in the transaction of what they are for.

An object store would be another `Store`: content under a name, encrypted before it leaves this process.
"""

from __future__ import annotations

import os
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from bursar.db.pool import Queryable

CHUNK = 256 * 1024
KEY_VERSION = 1


class Damaged(Exception):
    """A stored file is incomplete, was moved, or was changed."""


class Store(Protocol):
    """Keeps content under (account, id). `salt` is what the caller must keep to read it again."""

    async def put(self, db: Queryable, account_id: int, upload_id: int, content: bytes) -> tuple[bytes, int]: ...

    async def get(self, db: Queryable, account_id: int, upload_id: int, salt: bytes, chunks: int) -> bytes: ...


class DatabaseStore:
    """Rows of ciphertext. Each chunk is bound to its file and its place, so none can be moved or left out."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    async def put(self, db: Queryable, account_id: int, upload_id: int, content: bytes) -> tuple[bytes, int]:
        """Salt and number of chunks."""
        salt = os.urandom(16)
        cipher = self._cipher(salt)
        plain = [content[start : start + CHUNK] for start in range(0, len(content), CHUNK)]
        sealed: list[bytes] = []
        for n, chunk in enumerate(plain):
            nonce = os.urandom(12)
            sealed.append(nonce + cipher.encrypt(nonce, chunk, _place(account_id, upload_id, n, len(plain))))
        await db.execute(
            """
            INSERT INTO upload_chunk (account_id, upload_id, n, data)
            SELECT $1, $2, n - 1, data
            FROM unnest($3::bytea[]) WITH ORDINALITY AS c (data, n)
            """,
            account_id,
            upload_id,
            sealed,
        )
        return salt, len(plain)

    async def get(self, db: Queryable, account_id: int, upload_id: int, salt: bytes, chunks: int) -> bytes:
        rows = await db.fetch(
            "SELECT data FROM upload_chunk WHERE account_id = $1 AND upload_id = $2 ORDER BY n", account_id, upload_id
        )
        if len(rows) != chunks:
            raise Damaged
        cipher = self._cipher(salt)
        try:
            return b"".join(
                cipher.decrypt(row["data"][:12], row["data"][12:], _place(account_id, upload_id, n, chunks))
                for n, row in enumerate(rows)
            )
        except InvalidTag as error:
            raise Damaged from error

    def _cipher(self, salt: bytes) -> AESGCM:
        return AESGCM(HKDF(algorithm=SHA256(), length=32, salt=salt, info=b"bursar upload").derive(self._key))


def _place(account_id: int, upload_id: int, n: int, chunks: int) -> bytes:
    return f"{account_id}:{upload_id}:{n}:{chunks}".encode()
