"""The five families of routes as one table: what is signed, how keys behave, what is refused, how much is allowed.

A family is data. The pipeline reads this table; no handler knows which family it serves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from bursar.http.signing import Message, five_lines, six_lines, timestamp_and_body

KB = 1024
MB = 1024 * KB


class KeyScope(Enum):
    """What an idempotency key is unique within, besides its owner and family."""

    TARGET_METHOD_PATH = "target account, method and path"
    METHOD_PATH = "method and path"
    OWNER = "nothing: the owner alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    name: str
    message: Message | None  # None: writes are not signed
    strict_headers: bool = False  # 400 for malformed signature headers and keys, 401 for a wrong digest only
    key_shape: re.Pattern[str]
    key_required: bool = True
    key_scope: KeyScope
    replays: bool  # False: any second use of a key is 409 duplicate_request
    errors_consume: bool  # a declared error is stored under the key, which is then used up
    review_after: timedelta | None = None  # an unconfirmed key older than this needs a person
    unknown_fields: str  # "ignore" or "refuse"
    query_on_writes: bool = True
    account_header: bool = True
    account_field: bool = False  # `account_id` in the body or query names the account, too
    https_status: int | None = None  # plain HTTP from elsewhere than this machine is refused with this status
    live_only: bool = False
    body_limit: int = MB
    upload_limit: int = 12 * MB
    depth_limit: int = 32
    uri_limit: int = 8 * KB
    reads_per_minute: int | None = None
    writes_per_minute: int | None = None
    address_per_minute: int | None = None  # before authentication
    retry_after_s: int | None = None  # a fixed Retry-After


_PRINTABLE = re.compile(r"[!-~]{1,255}", re.ASCII)
_BOUND = re.compile(r"[A-Za-z0-9._:-]{8,100}", re.ASCII)
_COMMERCE = re.compile(r"[!-~]{8,100}", re.ASCII)

LEGACY = Family(
    name="legacy",
    message=timestamp_and_body,
    key_shape=_PRINTABLE,
    key_scope=KeyScope.TARGET_METHOD_PATH,
    replays=True,
    errors_consume=False,
    unknown_fields="ignore",
    account_field=True,
)

DISPUTE = Family(
    name="dispute",
    message=timestamp_and_body,
    key_shape=_PRINTABLE,
    key_scope=KeyScope.TARGET_METHOD_PATH,
    replays=False,
    errors_consume=True,
    unknown_fields="ignore",
    account_field=True,
    writes_per_minute=6,
)

SUBSCRIPTIONS = Family(
    name="subscriptions",
    message=six_lines,
    strict_headers=True,
    key_shape=_BOUND,
    key_scope=KeyScope.TARGET_METHOD_PATH,
    replays=True,
    errors_consume=True,
    review_after=timedelta(hours=23),
    unknown_fields="refuse",
    query_on_writes=False,
    https_status=400,
    live_only=True,
    body_limit=64 * KB,
    depth_limit=16,
    reads_per_minute=120,
    writes_per_minute=20,
    retry_after_s=60,
)

COMMERCE = Family(
    name="commerce",
    message=six_lines,
    key_shape=_COMMERCE,
    key_scope=KeyScope.OWNER,
    replays=True,
    errors_consume=False,
    unknown_fields="refuse",
    query_on_writes=False,
    https_status=403,
    live_only=True,
    body_limit=64 * KB,
    uri_limit=2048,
    reads_per_minute=120,
    writes_per_minute=60,
)

MANAGEMENT = Family(
    name="management",
    message=five_lines,
    key_shape=_BOUND,
    key_scope=KeyScope.METHOD_PATH,
    replays=False,
    errors_consume=True,
    unknown_fields="refuse",
    query_on_writes=False,
    account_header=False,
    https_status=403,
    live_only=True,
    body_limit=64 * KB,
    reads_per_minute=60,
    writes_per_minute=20,
    address_per_minute=60,
)

FAMILIES = {family.name: family for family in (LEGACY, DISPUTE, SUBSCRIPTIONS, COMMERCE, MANAGEMENT)}

# The operator API keeps the same rules where they apply; it is not a family of the public API.
OPERATOR = Family(
    name="operator",
    message=None,
    key_shape=_PRINTABLE,
    key_required=False,
    key_scope=KeyScope.METHOD_PATH,
    replays=True,
    errors_consume=False,
    unknown_fields="refuse",
    account_header=False,
)
