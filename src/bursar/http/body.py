"""From raw bytes to checked values: size, JSON grammar with exact decimals, uploads, forbidden card data, validation.

Nothing is guessed: a duplicate key, a NaN, a lone surrogate or a number too long to mean an amount is refused.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn
from urllib.parse import parse_qsl

import falcon.asgi
from falcon import HTTPError
from falcon.media.multipart import MultipartFormHandler, MultipartParseError
from pydantic import BaseModel, ValidationError

from bursar.core import text
from bursar.core.errors import ApiError, BadRequest, PayloadTooLarge, UnknownFields, ValidationFailed

NUMBER_LONGEST = 40
PARTS_LARGEST = 64
FIELD_LARGEST = 256 * 1024  # of a form's field that is no file
VALUES_LARGEST = 20_000  # of a whole JSON body; commas in its texts count, too


class _TooDeep(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Upload:
    """A file as it was sent; its type is decided by whoever keeps it, from its content."""

    name: str
    content: bytes
    content_type: str = ""  # as its sender declared it


@dataclass(frozen=True, slots=True)
class Parts:
    """A parsed multipart body."""

    fields: dict[str, Any] = field(default_factory=dict)
    files: dict[str, list[Upload]] = field(default_factory=dict)

    @property
    def digest(self) -> bytes:
        """The same for the same parts, whatever boundary the client chose."""
        seal = hashlib.sha256()
        for name, value in sorted(self.fields.items()):
            seal.update(f"field {name!r} {value!r}\n".encode())
        for name, uploads in sorted(self.files.items()):
            for upload in uploads:
                seal.update(f"file {name!r} {upload.name!r} ".encode() + hashlib.sha256(upload.content).digest())
        return seal.digest()


async def read(request: falcon.asgi.Request, limit: int) -> bytes:
    """The raw body, never more than the limit whatever its length header says."""
    length = request.content_length
    if length is None and request.get_header("Transfer-Encoding") is None:
        return b""
    if length is not None and length > limit:
        raise PayloadTooLarge(details={"max_bytes": limit})
    if length == 0:
        return b""
    content = bytes(await request.stream.read(limit + 1)) if length is None else bytes(await request.stream.read())
    if len(content) > limit:
        raise PayloadTooLarge(details={"max_bytes": limit})
    return content


def decode_json(raw: bytes, depth_limit: int) -> dict[str, Any]:
    """A JSON object with exact decimals. 400 for bad grammar, 413 for too many values or too deep a nesting."""
    if len(raw) > VALUES_LARGEST and raw.count(b",") + raw.count(b"[") + raw.count(b"{") > VALUES_LARGEST:
        raise PayloadTooLarge(details={"max_values": VALUES_LARGEST})
    try:
        tree = _json.decode(raw.decode())
    except UnicodeDecodeError:
        raise BadRequest("The body is not valid UTF-8.") from None
    except RecursionError:
        raise PayloadTooLarge from None
    except ValueError as error:
        raise BadRequest(f"The body is not valid JSON: {_reason(error)}.") from None
    if not isinstance(tree, dict):
        raise BadRequest("The body must be a JSON object.")
    if raw.count(b"{") + raw.count(b"[") > depth_limit:
        _check_depth(tree, depth_limit)
    if b"\\u" in raw and (path := _unstorable(tree)) is not None:
        raise ValidationFailed(details={path: ["contains a character that cannot be stored"]})
    return tree


def _number(literal: str) -> Decimal:
    if len(literal) > NUMBER_LONGEST:
        raise ValueError("a number is too long")
    try:
        number = Decimal(literal)
    except InvalidOperation:  # an exponent beyond what a Decimal can have
        raise ValueError("a number is too large") from None
    if abs(number.adjusted()) > NUMBER_LONGEST:
        raise ValueError("a number is too large")
    return number


def _integer(literal: str) -> int:
    if len(literal) > NUMBER_LONGEST:
        raise ValueError("a number is too long")
    return int(literal)


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {text.mask(twice)[:60]!r} appears twice")
    return result


_json = json.JSONDecoder(parse_float=_number, parse_int=_integer, parse_constant=_constant, object_pairs_hook=_object)


def _reason(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    return str(error)


def _check_depth(tree: Any, limit: int) -> None:
    level, depth = [tree], 0
    while level:
        depth += 1
        if depth > limit:
            raise PayloadTooLarge(details={"max_depth": limit})
        deeper: list[Any] = []
        for node in level:
            children = node.values() if isinstance(node, dict) else node
            deeper.extend(child for child in children if isinstance(child, dict | list))
        level = deeper


def _unstorable(tree: Any) -> str | None:
    """The path of a string that PostgreSQL could not hold."""
    waiting: list[tuple[str, Any]] = [("", tree)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, str) and text.text_problem(node):
            return path or "body"
        if isinstance(node, dict):
            if any(text.text_problem(name) for name in node):
                return path or "body"
            waiting.extend((f"{path}.{name}".lstrip("."), child) for name, child in node.items())
        elif isinstance(node, list):
            waiting.extend((f"{path}.{position}".lstrip("."), child) for position, child in enumerate(node))
    return None


_multipart = MultipartFormHandler()
_multipart.parse_options.max_body_part_count = PARTS_LARGEST
_multipart.parse_options.max_body_part_buffer_size = 12 * 1024 * 1024


def _field(part: Any) -> bytes:
    content = bytes(part.stream.read(FIELD_LARGEST + 1))
    if len(content) > FIELD_LARGEST:
        raise PayloadTooLarge(details={"max_bytes": FIELD_LARGEST})
    return content


def decode_multipart(raw: bytes, content_type: str) -> Parts:
    """Fields and files of a form. A field named `x[]` or sent twice becomes a list."""
    parts = Parts()
    try:
        for part in _multipart.deserialize(io.BytesIO(raw), content_type, len(raw)):
            name = (part.name or "").removesuffix("[]")
            content = part.get_data() if part.filename is not None else _field(part)
            if part.filename == "" and not content:
                continue  # a form's file field that was left empty
            if part.filename is not None:
                upload = Upload(part.secure_filename, content, part.content_type)
                parts.files.setdefault(name, []).append(upload)
            elif name in parts.fields:
                before = parts.fields[name]
                parts.fields[name] = [*(before if isinstance(before, list) else [before]), content.decode()]
            else:
                parts.fields[name] = content.decode()
    except (MultipartParseError, HTTPError, ValueError) as error:
        raise BadRequest("The multipart body is malformed.") from error
    if (path := _unstorable(parts.fields)) is not None:
        raise ValidationFailed(details={path: ["contains a character that cannot be stored"]})
    return parts


def decode_query(query: bytes) -> dict[str, str]:
    """Query parameters; the last of a repeated one counts."""
    if not query:
        return {}
    try:
        values = dict(parse_qsl(query.decode(), keep_blank_values=True, errors="strict", max_num_fields=PARTS_LARGEST))
    except ValueError:
        raise BadRequest("The query string is malformed.") from None
    if (path := _unstorable(values)) is not None:
        raise ValidationFailed(details={path: ["contains a character that cannot be stored"]})
    return values


def refuse_card_data(tree: Any, raw: bytes | None = None) -> None:
    """Card numbers, CVCs, expiry dates, PINs and credentials have no place in any request; `raw` may save a look."""
    if paths := text.card_data_paths(tree, values=raw is None or text.may_contain_forbidden(raw)):
        raise ValidationFailed(
            "Card data and credentials are never accepted here.",
            details={path: ["must not carry card data or credentials"] for path in paths},
        )


def validate(model: type[BaseModel], values: Mapping[str, Any], *, refuses_unknown: bool) -> Any:
    """An instance of the model, or one error that names every bad field."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _as_api_error(error, refuses_unknown) from None


_PLAINLY = {"is_instance_of": "Input should be a valid number"}  # what stands for a number inside concerns nobody


def _as_api_error(error: ValidationError, refuses_unknown: bool) -> ApiError:
    details: dict[str, list[str]] = {}
    unknown = False
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        unknown = unknown or problem["type"] == "extra_forbidden"
        path = text.mask(".".join(str(part) for part in problem["loc"])) or "body"
        told = _PLAINLY.get(problem["type"]) or problem["msg"].removeprefix("Value error, ")
        details.setdefault(path, []).append(told)
    return (UnknownFields if unknown and refuses_unknown else ValidationFailed)(details=details)
