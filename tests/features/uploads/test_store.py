"""How files are kept: encrypted, in pieces, none of which can be moved or left out."""

from __future__ import annotations

import os

import pytest

from bursar.features.uploads.store import CHUNK, Damaged, DatabaseStore
from tests.support.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="module")


class TestStore:
    async def test_what_is_put_comes_back(self, service: Service) -> None:
        store = DatabaseStore(os.urandom(32))
        for number, size in enumerate((1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5), 7001):
            content = os.urandom(size)
            salt, chunks = await store.put(service.db, 7000, number, content)
            assert chunks == -(-size // CHUNK)
            assert await store.get(service.db, 7000, number, salt, chunks) == content

    async def test_nothing_readable_is_in_the_database(self, service: Service) -> None:
        store = DatabaseStore(os.urandom(32))
        await store.put(service.db, 7100, 1, b"passport of Ada " * 1000)
        [row] = await service.db.fetch("SELECT data FROM upload_chunk WHERE account_id = 7100")
        assert b"passport" not in row["data"]

    async def test_damage_is_noticed(self, service: Service) -> None:
        store = DatabaseStore(os.urandom(32))
        salt, chunks = await store.put(service.db, 7200, 1, b"a" * (2 * CHUNK))
        other, _ = await store.put(service.db, 7200, 2, b"b" * (2 * CHUNK))
        assert other != salt
        with pytest.raises(Damaged):
            await store.get(service.db, 7200, 1, salt, chunks - 1)
        with pytest.raises(Damaged):
            await store.get(service.db, 7200, 2, salt, chunks)
        with pytest.raises(Damaged):
            await DatabaseStore(os.urandom(32)).get(service.db, 7200, 1, salt, chunks)

    async def test_staff_find_no_file_that_is_not_there(self, service: Service) -> None:
        for name in ("999999", "x"):
            reply = await service.ops("GET", f"/uploads/{name}")
            assert (reply.status_code, reply.json()["error"]["code"]) == (404, "upload_not_found")
