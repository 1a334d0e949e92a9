"""What the OpenAPI document says in sentences: the introduction, the tags, and the fine print of each operation.

Whatever a table of the code can say is generated from that table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from bursar.core.clock import SIGNATURE_TOLERANCE_S
from bursar.http.caller import Gate
from bursar.http.families import FAMILIES, KB, MB, Family
from bursar.http.openapi_parameters import message_in_words, signed_message
from bursar.http.routes import Processor, Route
from bursar.settings import Settings

TAGS = {
    "Accounts": "The merchant behind the key, or the connected merchant that a platform acts on.",
    "Connected accounts": "The merchants that a platform opened: onboarding, state, requirements.",
    "API keys": "An account's own keys: list, rotate with a grace period, revoke.",
    "Payments": "Hosted payments and payment links: the customer pays on the service's own page.",
    "Hosted payments": "A payment that the customer makes on the service's own page.",
    "Payment links": "Addresses that anyone may pay at.",
    "Transactions": "What was paid: read, cancel, refund.",
    "Proof": "Evidence that is asked for while money is held in reserve.",
    "Balances": "What an account holds in each currency, and every movement behind it.",
    "Wallets": "What an account holds in each currency, and every movement behind it.",
    "Payouts": "Money to an account's own bank account, at once or by schedule.",
    "Bank accounts": "Where payouts go.",
    "Disbursements": "Money to other people's bank accounts.",
    "Disburse": "Money to other people's bank accounts.",
    "Disputes": "Payments that a customer's bank disputes: counter or accept.",
    "Loans": "Advances against takings; read only.",
    "Terminal": "Card readers: locations, registration, payments in person.",
    "Webhooks": "Where events are sent, and what became of each delivery.",
    "Events": "What happened, as it was sent to webhooks.",
    "Identity": "Links at which a person proves who they are.",
    "Compliance": "What the service has asked an account for, and the answers.",
    "Support": "Tickets and their replies.",
    "Trade": "Products, stock, customers and orders of the trade plan.",
    "Resources": "Further collections, for reading.",
    "Connect settings": "What a platform sets for its connected accounts: prices, limits, rewards.",
    "Commerce": "Fees on orders paid elsewhere: usage, collections, commissions.",
    "Management": "Second-tier platforms and their agents, prices, funds and accounts.",
    "Store": "Hardware and supplies that merchants order.",
    "Contracts": "Agreements that customers read, sign and pay on.",
    "Invoices": "Invoices with lines, sent and paid on a hosted page.",
    "Subscriptions": "Products, prices and agreements that renew.",
    "Gym": "Clients, plans, memberships, classes and check-ins.",
    "Operator": "For whoever runs this instance: what was done, and by whom.",
    "Operator: accounts": "For whoever runs this instance: open accounts, issue keys, change what staff may change.",
    "Operator: cases": "For whoever runs this instance: what merchants sent in, to look at and decide.",
    "Operator: test instance": "Test instances only: the movable clock, due work, and the processor simulator.",
}


def tags(routes: Iterable[Route]) -> list[dict[str, str]]:
    """The tags in use, in the order of the table above; a tag that it does not know comes last, undescribed."""
    used = list(dict.fromkeys(route.tag for route in routes))
    known = [tag for tag in TAGS if tag in used]
    described = [{"name": tag, "description": TAGS[tag]} for tag in known]
    return described + [{"name": tag} for tag in used if tag not in TAGS]


# The introduction ----------------------------------------------------------------------------------------------

_START = """\
## Getting started

Every path of the public API begins with `/v2`. Send your secret key with each request, as
`Authorization: Bearer sk_live_…`, from your servers only: whoever holds it is you.

A reply is `{{"success": true, "data": …}}`, with `meta` beside `data` where there is more to say. Amounts are decimals
in major units (`49.99` is forty-nine pounds ninety-nine), moments are ISO 8601. Ignore fields you do not know: new ones
may come at any time.

There are two ways of working. A **merchant** acts on its own account. A **platform** acts on a connected account by
naming it in `Service-Account`; without that header it acts on itself. A key that was restricted to some areas is
answered 403 `forbidden` elsewhere, with the scope it lacks in `details.required_scope`."""

_SIGNING = """\
## Signing

Reads need the key alone. Every write is signed: `X-Service-Timestamp` carries Unix seconds, at most
{minutes} minutes off, and `X-Service-Signature` the lower-case hex HMAC-SHA256 of a message, keyed with the same secret
key. Which message depends on the family of the route; the reference names the family of each operation and has a
snippet that signs it.

{table}

`<body>` is what you send, byte for byte: serialise once, sign those bytes, send those bytes. A write without a body
signs the empty string. `<path>` begins with `/v2` (`/sandbox/v2` in the sandbox) and has no host and no query."""

_IDEMPOTENCY = """\
## Idempotency

A write carries an `Idempotency-Key` of your choosing: one for each thing that is to happen once, the same again when
you retry it. After a time-out or a 5xx the outcome is unknown; retry with the same key and the same bytes, and it
happens once.

{table}

Keys are kept for 24 hours, for 30 days where money leaves. A reply that shows a secret is kept sealed and repeated to
the key that asked for it, no other. `/ops/v1` takes keys as the legacy family does, but does not insist on them."""

_ERRORS = """\
## Errors

A failure is `{{"success": false, "error": {{"code", "message", "details"}}}}`. Decide by `code`; `message` is for
people and may be reworded. `validation_error` names every bad field at once: `details` maps a field's path to its
messages. Objects of other accounts are not found rather than forbidden. A 500 says nothing of its cause but a request
id, which is also in `Service-Request-Id` of every reply."""

_LISTS = """\
## Lists

A list takes `page` (from 1), `per_page` (25 unless you ask for up to 100) and `sort` (`-id` unless you say otherwise;
a leading minus descends), and answers with `meta.pagination`: `current_page`, `per_page`, `total`, `last_page`.
Lists of the commerce family read on instead: pass `meta.next_cursor` back as `cursor` while `meta.has_more` is true."""

_LIMITS = """\
## Limits

{table}

Minutes are those of the clock and count for one caller on one account. Beside them, one caller on one account has
{reads} reads and {writes} writes a second, the sandbox {sandbox} requests, with room for short bursts. Replies carry
`RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`; 429 `rate_limited` also carries `Retry-After`."""

_SANDBOX = """\
## Sandbox

`/sandbox/v2` mirrors `/v2`: same paths, same signing, same checks, and nothing is kept. The reply says in
`meta.effects` what would have happened, and carries `Service-Sandbox: true`. Test keys (`sk_test_…`) work there and
nowhere else, on sample data; a live key tries things out on its own records. Routes of the families {live_only} are
live only: there the sandbox answers 403 `live_only`."""

_VERSIONS = """\
## Versions

This is version 2, and every reply says so in `Service-Version`. It changes by addition only. What is superseded goes
on working, with `Deprecation` since when and `Link` to its successor, and is announced a year before it ends."""


def introduction(settings: Settings) -> str:
    live_only = [name for name, family in FAMILIES.items() if family.live_only]
    return "\n\n".join(
        (
            _START.format(),
            _SIGNING.format(minutes=SIGNATURE_TOLERANCE_S // 60, table=_signing_table()),
            _IDEMPOTENCY.format(table=_idempotency_table()),
            _ERRORS.format(),
            _LISTS,
            _LIMITS.format(
                table=_limits_table(),
                reads=settings.reads_per_second,
                writes=settings.writes_per_second,
                sandbox=settings.sandbox_per_second,
            ),
            _SANDBOX.format(live_only=_listed(live_only)),
            _VERSIONS,
        )
    )


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def _table(*rows: Sequence[str]) -> str:
    head, *rest = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, f"|{' --- |' * len(rows[0])}", *rest])


def _signing_table() -> str:
    return _table(
        ("Family", "Message"),
        *((name, message_in_words(family.message)) for name, family in FAMILIES.items() if family.message),
    )


def _idempotency_table() -> str:
    return _table(
        ("Family", "Key", "Unique within", "The same request again", "After an error"),
        *(
            (
                name,
                f"`{family.key_shape.pattern}`",
                _unique_within(family),
                _again(family),
                "key used up" if family.errors_consume else "key still free",
            )
            for name, family in FAMILIES.items()
        ),
    )


def _unique_within(family: Family) -> str:
    extra = family.key_scope.value
    return "caller" if extra.startswith("nothing") else f"caller, {extra}"


def _again(family: Family) -> str:
    if not family.replays:
        return "409 `duplicate_request`"
    review = f"; unconfirmed after {_hours(family.review_after)}: 409" if family.review_after else ""
    return f"first reply again{review}"


def _limits_table() -> str:
    return _table(
        ("Family", "Writes a minute", "Reads a minute", "Body", "Depth", "Address"),
        *(
            (
                name,
                str(family.writes_per_minute or "–"),
                str(family.reads_per_minute or "–"),
                _size(family.body_limit) + (f", uploads {_size(family.upload_limit)}" if not family.live_only else ""),
                str(family.depth_limit),
                f"{family.uri_limit} characters",
            )
            for name, family in FAMILIES.items()
        ),
    )


def _size(count: int) -> str:
    return f"{count // MB} MB" if count >= MB else f"{count // KB} KB"


def _hours(span: timedelta) -> str:
    hours = round(span.total_seconds() / 3600)
    return f"{hours // 24} days" if hours > 24 and hours % 24 == 0 else f"{hours} hours"


# The fine print of one operation -------------------------------------------------------------------------------

_GATES = {
    Gate.OPEN: "",
    Gate.WRITE: "Refused while the account is banned.",
    Gate.PAYMENTS: "Refused unless the account may take payments.",
    Gate.TRANSFERS: "Refused unless the account is verified and may move money out.",
}


def fine_print(route: Route) -> str:
    sentences = [*_who(route), _GATES[route.gate], *_how(route), *_limits(route)]
    return " ".join(sentence for sentence in sentences if sentence)


def _who(route: Route) -> Iterable[str]:
    if route.family.name != "operator":
        yield f"Restricted keys need `{route.scope}`." if route.scope else "Full secret keys only."
    if route.platform_only:
        yield "For platforms only."
    if route.test_only:
        yield "On test instances only."
    if route.successor:
        yield f"Superseded by `{route.successor}`."


def _how(route: Route) -> Iterable[str]:
    family = route.family
    if family.live_only:
        yield "Live only: it has no sandbox."
    if route.writes and family.message is not None:
        parts = signed_message(family.message).count("\n") + 1
        shape = message_in_words(family.message) if parts == 1 else f"the {parts} lines of the {family.name} family"
        yield f"Signs {shape}."
    if route.shows_secret:
        yield "The reply shows a secret, this once."
    if isinstance(route.handler, Processor):
        yield "When no answer comes in time, the reply shows the work as still going on, and it is finished later."
    if route.writes:
        yield f"Idempotency keys are kept for {_hours(route.keep)}."


def _limits(route: Route) -> Iterable[str]:
    family = route.family
    limit = family.writes_per_minute if route.writes else family.reads_per_minute
    if limit:
        yield f"At most {limit} {'writes' if route.writes else 'reads'} of this family a minute."
    if family.address_per_minute:
        yield f"At most {family.address_per_minute} requests a minute from one address."
