"""Raw bytes that are no proper HTTP/1.1 request, each with what must come of it.

`REFUSED`: exactly one 4xx, then the connection is closed. `SERVED`: proper though odd; one reply per request, in order.
`HELD`: never finished by its sender; cut off after the time that a head or a body may take.
A second request is smuggled into most of them: should it ever be answered, `/health/live` tells.
"""

from __future__ import annotations

from dataclasses import dataclass

SECOND = b"GET /health/live HTTP/1.1\r\nHost: smuggled\r\n\r\n"
BODY = b'{"a":1}'


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    sent: bytes
    replies: int = 1  # how many are due
    good: bool = False  # the last of them is below 400
    drip_s: float = 0.0  # the pause between single bytes
    held: bool = False  # unfinished: closed by the service, with 408 or nothing


def _get(*headers: bytes, line: bytes = b"GET /v2/account HTTP/1.1", host: bytes = b"Host: x") -> bytes:
    return b"\r\n".join([line, host, *headers, b"", b""])


def _post(*headers: bytes, body: bytes = BODY, path: bytes = b"/v2/hosted-payments") -> bytes:
    lines = [b"POST " + path + b" HTTP/1.1", b"Host: x", b"Content-Type: application/json", *headers, b"", b""]
    return b"\r\n".join(lines) + body


_LENGTH = b"Content-Length: 7"
_CHUNKED = b"Transfer-Encoding: chunked"
_END = b"0\r\n\r\n"

_LENGTHS = [
    Case("two lengths that differ", _post(_LENGTH, b"Content-Length: 8") + SECOND),
    Case("two lengths that agree", _post(_LENGTH, _LENGTH) + SECOND),
    Case("a list of lengths", _post(b"Content-Length: 7, 7") + SECOND),
    Case("a negative length", _post(b"Content-Length: -7") + SECOND),
    Case("a signed length", _post(b"Content-Length: +7") + SECOND),
    Case("a hexadecimal length", _post(b"Content-Length: 0x7") + SECOND),
    Case("a length with a point", _post(b"Content-Length: 7.0") + SECOND),
    Case("a length in words", _post(b"Content-Length: seven") + SECOND),
    Case("an empty length", _post(b"Content-Length:") + SECOND),
    Case("a length beyond 64 bits", _post(b"Content-Length: 18446744073709551623") + SECOND),
    Case("a length of a thousand digits", _post(b"Content-Length: " + b"9" * 1000) + SECOND),
    Case("a length with an underscore", _post(b"Content-Length: 0_7") + SECOND),
    Case("a length with a space inside", _post(b"Content-Length: 0 7") + SECOND),
    Case("a length in other digits", _post("Content-Length: ٧".encode()) + SECOND),
]

_TRANSFER = [
    Case("length and chunks", _post(_LENGTH, _CHUNKED, body=b"7\r\n" + BODY + b"\r\n" + _END) + SECOND),
    Case("chunks and length", _post(_CHUNKED, _LENGTH, body=b"7\r\n" + BODY + b"\r\n" + _END) + SECOND),
    Case("a length that ends before the chunks", _post(b"Content-Length: 4", _CHUNKED, body=_END + SECOND)),
    Case("an unknown coding", _post(b"Transfer-Encoding: gzip", body=b"") + SECOND),
    Case("identity", _post(b"Transfer-Encoding: identity", body=b"") + SECOND),
    Case("chunked is not the last", _post(b"Transfer-Encoding: chunked, gzip", body=_END) + SECOND),
    Case("chunked twice", _post(b"Transfer-Encoding: chunked, chunked", body=_END) + SECOND),
    Case("two codings in two lines", _post(_CHUNKED, b"Transfer-Encoding: identity", body=_END) + SECOND),
    Case("chunked with a tail", _post(b"Transfer-Encoding: chunkedx", body=_END) + SECOND),
    Case("chunked in quotes", _post(b'Transfer-Encoding: "chunked"', body=_END) + SECOND),
    Case("chunked after a vertical tab", _post(b"Transfer-Encoding:\x0bchunked", body=_END) + SECOND),
    Case("an empty coding", _post(b"Transfer-Encoding:", body=_END) + SECOND),
    Case("chunks in HTTP/1.0", _post(_CHUNKED, body=_END).replace(b"HTTP/1.1", b"HTTP/1.0") + SECOND),
]

_CHUNKS = [
    Case("a chunk's size in letters", _post(_CHUNKED, body=b"zz\r\n" + BODY + b"\r\n" + _END) + SECOND),
    Case("a chunk's size with a sign", _post(_CHUNKED, body=b"+7\r\n" + BODY + b"\r\n" + _END) + SECOND),
    Case("a negative chunk", _post(_CHUNKED, body=b"-7\r\n" + BODY + b"\r\n" + _END) + SECOND),
    Case("a chunk's size with 0x", _post(_CHUNKED, body=b"0x7\r\n" + BODY + b"\r\n" + _END) + SECOND),
    Case("a chunk's size beyond 64 bits", _post(_CHUNKED, body=b"f" * 17 + b"\r\n" + BODY) + SECOND),
    Case("a chunk longer than it says", _post(_CHUNKED, body=b"3\r\n" + BODY + b"\r\n" + _END) + SECOND),
    Case("a chunk without its line end", _post(_CHUNKED, body=b"7\r\n" + BODY + _END) + SECOND),
    Case("chunks with bare line feeds", _post(_CHUNKED, body=b"7\n" + BODY + b"\n0\n\n") + SECOND),
    Case("an empty chunk size", _post(_CHUNKED, body=b"\r\n" + BODY + b"\r\n" + _END) + SECOND),
    Case("a bare line feed in a chunk's extension", _post(_CHUNKED, body=b"7;a\nb\r\n" + BODY + b"\r\n" + _END)),
    Case("a space before a chunk's size", _post(_CHUNKED, body=b" 7\r\n" + BODY + b"\r\n" + _END) + SECOND),
    Case("a trailer without a colon", _post(_CHUNKED, body=b"0\r\nwhatever\r\n\r\n") + SECOND),
    Case("a NUL in a trailer", _post(_CHUNKED, body=b"0\r\nx: a\0b\r\n\r\n") + SECOND),
]

_LINES = [
    Case("bare line feeds", _get().replace(b"\r\n", b"\n") + SECOND),
    Case("one bare line feed", _get(b"A: b").replace(b"x\r\n", b"x\n") + SECOND),
    Case("bare carriage returns", _get().replace(b"\r\n", b"\r") + SECOND),
    Case("a carriage return in a value", _get(b"A: b\rc") + SECOND),
    Case("an obsolete fold", _get(b"A: b\r\n c") + SECOND),
    Case("a fold with a tab", _get(b"Transfer-Encoding:\r\n\tchunked") + SECOND),
    Case("a fold before the first header", b"GET /v2/account HTTP/1.1\r\n Host: x\r\n\r\n" + SECOND),
    Case("a space before the colon", _get(b"Content-Length : 7") + BODY + SECOND),
    Case("a tab before the colon", _get(b"Transfer-Encoding\t: chunked") + _END + SECOND),
    Case("a header without a colon", _get(b"nonsense") + SECOND),
    Case("a header without a name", _get(b": b") + SECOND),
    Case("a NUL in a name", _get(b"A\0b: c") + SECOND),
    Case("a NUL in a value", _get(b"A: b\0c") + SECOND),
    Case("a space in a name", _get(b"A b: c") + SECOND),
    Case("a control character in a value", _get(b"A: b\x01c") + SECOND),
    Case("a name outside ASCII", _get("Ä: b".encode()) + SECOND),
    Case("a name in brackets", _get(b"[A]: b") + SECOND),
]

_FIRST_LINES = [
    Case("an unknown method", _get(line=b"PAY /v2/account HTTP/1.1") + SECOND),
    Case("a method in small letters", _get(line=b"get /v2/account HTTP/1.1") + SECOND),
    Case("no method", _get(line=b"/v2/account HTTP/1.1") + SECOND),
    Case("no version", _get(line=b"GET /v2/account") + SECOND),
    Case("version 0.9", _get(line=b"GET /v2/account HTTP/0.9") + SECOND),
    Case("version 1.2", _get(line=b"GET /v2/account HTTP/1.2") + SECOND),
    Case("version 2.0", _get(line=b"GET /v2/account HTTP/2.0") + SECOND),
    Case("version 3", _get(line=b"GET /v2/account HTTP/3") + SECOND),
    Case("version 1.10", _get(line=b"GET /v2/account HTTP/1.10") + SECOND),
    Case("another protocol", _get(line=b"GET /v2/account ICY/1.1") + SECOND),
    Case("an HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SECOND),
    Case("a TLS handshake", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64)),
    Case("a NUL in the path", _get(line=b"GET /v2/\0account HTTP/1.1") + SECOND),
    Case("a space in the path", _get(line=b"GET /v2/ account HTTP/1.1") + SECOND),
    Case("a tab in the path", _get(line=b"GET /v2/\taccount HTTP/1.1") + SECOND),
    Case("a path outside ASCII", _get(line=b"GET /v2/\xc3\xa4 HTTP/1.1") + SECOND),
    Case("bytes that are no UTF-8", _get(line=b"GET /v2/\xff\xfe HTTP/1.1") + SECOND),
    Case("words of nothing", b"\r\n\r\n\0\0\0\0" + SECOND),
    Case("CONNECT", _get(line=b"CONNECT example.com:443 HTTP/1.1") + SECOND),
    Case("a relative path", _get(line=b"GET v2/account HTTP/1.1") + SECOND),
    Case("a port that is none", _get(line=b"GET http://x:99999/v2/account HTTP/1.1") + SECOND),
]

_HOSTS = [
    Case("no host", b"GET /v2/account HTTP/1.1\r\n\r\n" + SECOND),
    Case("two hosts", _get(b"Host: y") + SECOND),
    Case("a host with a path", _get(host=b"Host: x/y") + SECOND),
    Case("a host with a user", _get(host=b"Host: a@x") + SECOND),
    Case("a host with a space", _get(host=b"Host: a b") + SECOND),
]

_SIZES = [
    Case("a path of 100 KB", _get(line=b"GET /v2/" + b"a" * 100_000 + b" HTTP/1.1")),
    Case("a header of 100 KB", _get(b"A: " + b"b" * 100_000)),
    Case("ten thousand headers", _get(*(b"A%d: b" % n for n in range(10_000)))),
    Case("a head that never ends", b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200_000),
    Case("a name of 70 KB", _get(b"a" * 70_000 + b": b")),
    Case("a method of 70 KB", b"G" * 70_000),
    Case("a trailer that never ends", _post(_CHUNKED, body=b"0\r\n" + b"A: b\r\n" * 200_000)),
    Case("a chunk extension of 1 MB", _post(_CHUNKED, body=b"7;" + b"a" * 1_000_000 + b"\r\n" + BODY + b"\r\n" + _END)),
]

_PROPER = [
    Case("bad percent-encodings", _get(line=b"GET /v2/%zz%e0%80 HTTP/1.1"), good=False),
    Case("an encoded NUL", _get(line=b"GET /v2/transactions/%00 HTTP/1.1")),
    Case("an encoded slash", _get(line=b"GET /v2%2faccount HTTP/1.1")),
    Case("an overlong encoding", _get(line=b"GET /v2/%c0%ae%c0%ae/ops HTTP/1.1")),
    Case("dots", _get(line=b"GET /v2/../ops/v1/accounts HTTP/1.1")),
    Case("two slashes", _get(line=b"GET //ops/v1/accounts HTTP/1.1")),
    Case("a bad query", _get(line=b"GET /v2/account?a=%zz&%00 HTTP/1.1")),
    Case("absolute form", _get(line=b"GET http://x/health/live HTTP/1.1"), good=True),
    Case("absolute form, another host", _get(line=b"GET http://y/v2/account HTTP/1.1")),
    Case("an asterisk", _get(line=b"OPTIONS * HTTP/1.1")),
    Case("another scheme", _get(line=b"GET ftp://x/v2/account HTTP/1.1")),
    Case("a body with a read", _get(_LENGTH) + BODY),
    Case("ten at once", SECOND * 10, replies=10, good=True),
    Case("an end, then more", _get(b"Connection: close") + SECOND),
    Case("HTTP/1.0, then more", _get(line=b"GET /v2/account HTTP/1.0") + SECOND),
    Case("an upgrade", _get(b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13") + SECOND),
    Case("an upgrade to h2c", _get(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c") + SECOND),
    Case("expectations that nobody has", _post(b"Expect: a-miracle", _LENGTH)),
    Case("one byte after the other", SECOND, good=True, drip_s=0.001),
]

_UNFINISHED = [
    Case("nothing at all", b"", replies=0, held=True),
    Case("half a line", b"GET /v2/acc", held=True),
    Case("a head without its end", b"GET /v2/account HTTP/1.1\r\nHost: x\r\n", held=True),
    Case("a head that drips", _get(*(b"A%d: b" % n for n in range(50))), drip_s=0.5, held=True),
    Case("a body that never comes", _post(b"Content-Length: 500", body=b'{"a"'), held=True),
    Case("chunks that never end", _post(_CHUNKED, body=b"3\r\n{  \r\n"), held=True),
    Case("after a proper request, half of one", SECOND + b"GET /v2/acc", replies=2, held=True),
]

REFUSED = [*_LENGTHS, *_TRANSFER, *_CHUNKS, *_LINES, *_FIRST_LINES, *_HOSTS, *_SIZES]
SERVED = _PROPER
HELD = _UNFINISHED
