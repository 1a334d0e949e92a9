"""The link's own HTTP: connections that stay open, and what becomes of those that did not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing

import pytest

from bursar.processors import wire
from bursar.processors.wire import Line, Reply

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LAST = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
ANSWERED = Reply(200, b"ok")

SILENCE = b""

# What the server says to the nth request of the mth connection, both from 1. It hangs up after anything but
# these two; with None, without a word.
Answers = Callable[[int, int], bytes | None]


class Server:
    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.connections = 0
        self.requests: list[bytes] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection, count = self.connections, 0
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(head)
                count += 1
                answer = self._answers(connection, count)
                writer.write(answer or b"")
                await writer.drain()
                if answer not in (OK, SILENCE):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(answers: Answers) -> AsyncIterator[Server]:
    server = Server(answers)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with listening:
        yield server


async def ask(line: Line, method: str = "GET", timeout_s: float = 10.0) -> Reply:
    return await line.send(method, "/v1/things", {"x": "y"}, b"", timeout_s)


class TestKept:
    async def test_one_connection_for_many_questions(self) -> None:
        async with serving(lambda *_: OK) as server:
            with closing(Line(server.url + "/base")) as line:
                assert [await ask(line) for _ in range(5)] == [ANSWERED] * 5
            assert server.connections == 1
            assert server.requests[0].startswith(b"GET /base/v1/things HTTP/1.1\r\nHost: 127.0.0.1:")

    async def test_as_many_as_are_asked_at_once(self) -> None:
        async with serving(lambda *_: OK) as server:
            with closing(Line(server.url)) as line:
                for _ in range(3):
                    assert await asyncio.gather(*(ask(line) for _ in range(4))) == [ANSWERED] * 4
            assert server.connections == 4

    async def test_a_question_is_asked_again_when_the_connection_had_gone(self) -> None:
        async with serving(lambda _, n: OK if n == 1 else None) as server:
            with closing(Line(server.url)) as line:
                assert [await ask(line) for _ in range(2)] == [ANSWERED] * 2
            assert (server.connections, len(server.requests)) == (2, 3)

    async def test_an_order_never_goes_over_a_connection_that_was_kept(self) -> None:
        async with serving(lambda *_: OK) as server:
            with closing(Line(server.url)) as line:
                assert [await ask(line), await ask(line, "POST")] == [ANSWERED] * 2
            assert server.connections == 2

    async def test_one_that_is_closed_after_its_answer_is_not_used_again(self) -> None:
        async with serving(lambda *_: LAST) as server:
            with closing(Line(server.url)) as line:
                assert [await ask(line) for _ in range(2)] == [ANSWERED] * 2
            assert server.connections == 2

    async def test_nor_one_that_was_broken_off(self) -> None:
        async with serving(lambda m, _: SILENCE if m == 1 else OK) as server:
            with closing(Line(server.url)) as line:
                with pytest.raises(TimeoutError):
                    await ask(line, timeout_s=0.05)
                assert await ask(line) == ANSWERED
            assert server.connections == 2


class TestNoAnswer:
    @pytest.mark.parametrize("answer", [OK[:-1], b"no HTTP at all\r\n\r\n"])
    async def test_cut_off_or_nonsense(self, answer: bytes) -> None:
        async with serving(lambda *_: answer) as server:
            with pytest.raises(ConnectionError):
                await wire.send("GET", server.url, {}, b"", 10)

    async def test_nor_is_a_question_asked_again_of_which_the_answer_was_cut_off(self) -> None:
        async with serving(lambda _, n: OK if n == 1 else OK[:-1]) as server:
            with closing(Line(server.url)) as line:
                assert await ask(line) == ANSWERED
                with pytest.raises(ConnectionError):
                    await ask(line)
            assert (server.connections, len(server.requests)) == (1, 2)

    async def test_one_that_is_too_long(self) -> None:
        length = wire.LARGEST_REPLY + 1
        reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length + b"x" * length
        async with serving(lambda *_: reply) as server:
            with pytest.raises(ConnectionError):
                await wire.send("GET", server.url, {}, b"", 10)
