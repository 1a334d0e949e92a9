"""The one path that every request takes, in this order:

    size and type → address limit → authenticate → decode → account scope → client and public key → rate limit
      → signature → idempotency key → validate → handler, in one transaction with its events and stored reply → reply

Nothing of a body is looked at before its sender is known.
"""

from __future__ import annotations

import time
from typing import Any

import asyncpg
import structlog

from bursar.core import ids
from bursar.core.clock import real_now, unix_now
from bursar.core.crashpoints import crashpoint
from bursar.core.crypto import same
from bursar.core.errors import (
    AccountKeyMismatch,
    ApiError,
    BadRequest,
    ConnectNotEnabled,
    Forbidden,
    HttpsRequired,
    InvalidAccountId,
    InvalidCredentials,
    LiveOnly,
    RateLimited,
    UnsupportedMediaType,
    UriTooLong,
)
from bursar.db.clock import instance_now
from bursar.db.pool import LOST, Busy
from bursar.http import audit, body, idempotency, limits, metrics, reads, sandbox, signing, writes
from bursar.http.batched import Batches
from bursar.http.caller import bearer, match_keys, require_scope
from bursar.http.context import Account, Caller
from bursar.http.exchange import Exchange
from bursar.http.idempotency import Held, Stored, answer_held
from bursar.http.instance import Instance
from bursar.http.reads import Reads
from bursar.http.received import Received
from bursar.http.reply import Send, broken, failed, reply_at_once, send_reply
from bursar.http.routes import Batched, Local, Processor, Route

log = structlog.get_logger()

V2_SINCE = 1735689600  # when the aliases were superseded: the first day of v2
NOBODY = Account(
    account_id=0, public_id="operator", kind="operator", platform_id=None, platform_public_id=None, status="active",
    kyc_status="verified", connect_status="active", connect_enabled=False, partner_enabled=False,
    payments_paused=False, payouts_paused=False, fee_payer="connected_account", currency="GBP", country_code="GB",
    business_company_name="Operator", public_key="", client_key="", merchant_pricing={}, application_fee_defaults={},
    capabilities={},
)  # fmt: skip


class Pipeline:
    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self._batches = Batches(together=instance.settings.group_commit)
        self._reads = Reads()
        self._seconds: dict[tuple[str, int], Any] = {}

    async def respond(self, route: Route, received: Received, send: Send, path: dict[str, str], *, dry: bool) -> None:
        """Answers one request; whatever happens, in the specified envelope."""
        exchange = Exchange(
            instance=self.instance,
            route=route,
            request_id=ids.new_request_id(),
            method=received.method,
            target_path=received.path,
            path=path,
            sandbox=dry,
        )
        reply = await self._safely(exchange, received)
        crashpoint("reply.before")
        self._observe(exchange, reply.status)
        headers = _headers(exchange, reply)
        if not reply_at_once(received.extensions, reply, exchange.request_id, headers):
            await send_reply(send, reply, exchange.request_id, headers)

    async def _safely(self, exchange: Exchange, received: Received) -> Stored:
        try:
            reply = await self._run(exchange, received)
            if not reply.replayed:
                return reply
        except ApiError as error:
            reply = failed(error)
        except Exception as error:
            reply = broken(error, exchange.request_id, exchange.route)
        await self._audit_aside(exchange, reply.status)
        return reply

    async def _run(self, exchange: Exchange, received: Received) -> Stored:
        route, family = exchange.route, exchange.route.family
        self._locate(exchange, received)
        if exchange.sandbox and family.live_only:
            raise LiveOnly
        uploads = route.uploads and received.media_type == "multipart/form-data"
        exchange.raw = await received.body(family.upload_limit if uploads else family.body_limit)
        if family.address_per_minute:
            exchange.headers |= await limits.count_minute(
                self.instance.db, f"{family.name}:address", exchange.address, family.address_per_minute
            )
        exchange.caller = await self._authenticate(exchange, received)
        _decode(exchange, received)
        exchange.account = await self._scope(exchange, received)
        await self._limit(exchange)
        if not route.writes:
            return await self._read(exchange, received)
        if isinstance(route.handler, Batched) and not exchange.sandbox:
            self._batches.foresee(exchange, route.handler)
        self._check_signature(exchange, received)
        return await self._write(exchange, received)

    # Who and where ---------------------------------------------------------------------------------------------

    def _locate(self, exchange: Exchange, received: Received) -> None:
        settings, family = self.instance.settings, exchange.route.family
        query = received.query
        if len(exchange.target_path) + len(query) + bool(query) > family.uri_limit:
            raise UriTooLong
        exchange.address = peer = received.peer
        scheme, anonymous_proxy = received.scheme, False
        if settings.trusted_proxies and limits.is_trusted(peer, settings.trusted_proxies):
            forwarded_for = received.header(b"x-forwarded-for")
            forwarded_proto = received.header(b"x-forwarded-proto")
            exchange.address = limits.client_address(peer, forwarded_for, settings.trusted_proxies)
            scheme = (forwarded_proto or scheme).lower()
            # A proxy that does not say for whom it asks is not taken for a caller on this machine.
            anonymous_proxy = bool(forwarded_proto and not forwarded_for)
        if family.https_status is None or scheme == "https":
            return
        if anonymous_proxy or not limits.is_loopback(exchange.address):
            raise HttpsRequired(status=family.https_status)

    async def _authenticate(self, exchange: Exchange, received: Received) -> Caller:
        throttle = self.instance.throttles.failed_authentication
        if throttle:
            throttle.check(exchange.address)
        authorization = received.header(b"authorization")
        try:
            if exchange.route.family.name == "operator":
                return self._operator(bearer(authorization))
            caller = await self.instance.callers.authenticate(authorization)
            if not exchange.sandbox:
                sandbox.refuse_test_key(caller)
        except RateLimited:
            raise
        except ApiError:
            if throttle:
                throttle.take(exchange.address)
            raise
        if caller.kind == "test":
            return await sandbox.stand_in(self.instance.callers, caller)
        return caller

    def _operator(self, secret: str) -> Caller:
        expected = self.instance.operator_hash
        if not expected or not same(self.instance.vault.lookup(secret), expected):
            raise InvalidCredentials
        return Caller(0, "operator", frozenset(), NOBODY, secret)

    async def _scope(self, exchange: Exchange, received: Received) -> Account:
        caller, route = exchange.caller, exchange.route
        assert caller is not None
        if caller.kind == "operator":
            return NOBODY
        account = caller.owner
        if (named := _named_account(exchange, received)) is not None:
            account = await self.instance.callers.target(caller, named)
            if named.isdigit():
                exchange.headers["Deprecation"] = f"@{V2_SINCE}"
        public_key = received.header(b"x-service-public-key")
        if public_key is None and route.family.account_field:
            field = exchange.values.get("public_key")
            public_key = field if isinstance(field, str) else None
        match_keys(caller, account, received.header(b"x-service-client-key"), public_key)
        require_scope(caller, route.scope)
        if route.platform_only and caller.owner.kind != "platform":
            raise Forbidden("Only platforms may use this endpoint.")
        if route.platform_only and not caller.owner.connect_enabled:
            raise ConnectNotEnabled
        return account

    async def _limit(self, exchange: Exchange) -> None:
        caller, account, route = exchange.caller, exchange.account, exchange.route
        assert caller is not None
        assert account is not None
        if caller.kind == "operator":
            return
        throttles = self.instance.throttles
        throttle = throttles.sandbox if exchange.sandbox else throttles.writes if route.writes else throttles.reads
        # By its public id: all test keys act on one fixture, but each for its own account.
        pair = f"{caller.owner.public_id}:{account.account_id}"
        if throttle:
            exchange.headers |= throttle.take(pair)
        if (route.family.writes_per_minute if route.writes else route.family.reads_per_minute) is not None:
            exchange.headers |= await limits.count_family(self.instance.db, route.family, pair, write=route.writes)

    # What is asked ---------------------------------------------------------------------------------------------

    def _check_signature(self, exchange: Exchange, received: Received) -> None:
        family, caller = exchange.route.family, exchange.caller
        assert caller is not None
        exchange.key = received.header(b"idempotency-key") or ""
        if family.message is None:
            return
        signed = signing.Signed(
            timestamp=received.header(b"x-service-timestamp") or "",
            method=exchange.method,
            path=exchange.target_path,
            key=exchange.key,
            account=received.header(b"service-account") or "",
            body=exchange.raw,
        )
        signature = received.header(b"x-service-signature") or ""
        signing.verify(signed, family.message, signature, caller.signing_key, unix_now(), strict=family.strict_headers)

    async def _read(self, exchange: Exchange, received: Received) -> Stored:
        if exchange.sandbox:
            return await sandbox.run(exchange)
        assert exchange.caller is not None
        by_operator = exchange.caller.kind == "operator"
        by_key = bool(exchange.path) and not exchange.route.is_list
        if not by_key and not by_operator:
            return await self._reads.run(exchange, received.query)
        ctx = exchange.ctx(self.instance.db)
        reply = await reads.look(exchange, ctx)
        if by_operator:
            async with self.instance.db.acquire() as db:
                ctx.dated = await instance_now(db)
                await audit.record(exchange, ctx, db, reply.status)
        return reply

    async def _write(self, exchange: Exchange, received: Received) -> Stored:
        family, caller, account = exchange.route.family, exchange.caller, exchange.account
        assert caller is not None
        assert account is not None
        if exchange.key or family.key_required:
            idempotency.check_key(family, exchange.key)
        if not family.query_on_writes and received.query:
            raise BadRequest("Writes here take no query parameters.")
        if exchange.sandbox:
            return await sandbox.run(exchange)
        if not exchange.key:
            return await self._handle(exchange)
        claim = exchange.claim = idempotency.new_claim(
            family,
            caller.owner.account_id,
            account.account_id,
            exchange.method,
            exchange.target_path,
            exchange.key,
            exchange.parts.digest if exchange.parts else exchange.raw,
            exchange.route.keep,
        )
        held = await self.instance.in_flight.enter(claim)
        if held is not None:
            return answer_held(held, claim, held.since, exchange.secret)
        remembered: Held | None = None
        try:
            reply = await self._handle(exchange)
            if not exchange.route.shows_secret:
                remembered = Held(claim.fingerprint, reply, sealed=False, since=real_now())
            return reply
        finally:
            self.instance.in_flight.leave(claim, remembered)

    async def _handle(self, exchange: Exchange) -> Stored:
        handler = exchange.route.handler
        if isinstance(handler, Local):
            return await writes.run_local(exchange, handler)
        if isinstance(handler, Batched):
            return await self._batches.run(exchange, handler)
        assert isinstance(handler, Processor)
        return await writes.run_processor(exchange, handler)

    # What is answered ------------------------------------------------------------------------------------------

    def _observe(self, exchange: Exchange, status: int) -> None:
        label = (exchange.route.name, status)
        seconds = self._seconds.get(label)
        if seconds is None:
            seconds = self._seconds[label] = metrics.request_seconds.labels(exchange.route.name, str(status))
        seconds.observe(time.perf_counter() - exchange.started)
        if self.instance.settings.access_log:
            owner = exchange.caller.owner.public_id if exchange.caller else ""
            self.instance.access_log.write(
                exchange.request_id, exchange.method, exchange.route.path, status, exchange.started, owner
            )

    async def _audit_aside(self, exchange: Exchange, status: int) -> None:
        """An operator's call that failed, or only repeated a reply, is on record, too."""
        if exchange.caller is None or exchange.caller.kind != "operator":
            return
        exchange.account = NOBODY  # it may have failed before that was known
        try:
            async with self.instance.db.acquire() as db:
                await audit.record(exchange, exchange.ctx(db, await instance_now(db)), db, status)
        except (Busy, asyncpg.PostgresError, *LOST):
            log.warning("audit.lost", request_id=exchange.request_id, action=exchange.route.name, status=status)


def _headers(exchange: Exchange, reply: Stored) -> dict[str, str]:
    """What a reply says besides itself."""
    headers, route = exchange.headers, exchange.route
    if exchange.sandbox:
        headers["Service-Sandbox"] = "true"
    if reply.replayed:
        headers["Idempotency-Replayed"] = "true"
        metrics.replays_total.labels(route.family.name).inc()
    if route.successor:
        prefix = "/sandbox/v2" if exchange.sandbox else "/v2"
        headers["Deprecation"] = f"@{V2_SINCE}"
        headers["Link"] = f'<{prefix}{route.successor}>; rel="successor-version"'
    return headers


def _decode(exchange: Exchange, received: Received) -> None:
    """Parses what was sent, and refuses card data wherever it hides."""
    route, family = exchange.route, exchange.route.family
    exchange.query = body.decode_query(received.query)
    if exchange.query and not route.takes_cards:
        body.refuse_card_data(exchange.query)
    if not route.writes:
        if exchange.raw and family.unknown_fields == "refuse":
            raise BadRequest("Reads take no body.")
        return
    content_type = received.media_type
    if not exchange.raw:
        if family.message is not None and not family.query_on_writes:
            raise BadRequest("The body must be a JSON object.")
    elif content_type == "application/json":
        exchange.values = body.decode_json(exchange.raw, family.depth_limit)
    elif content_type == "multipart/form-data" and route.uploads:
        exchange.parts = body.decode_multipart(exchange.raw, received.header(b"content-type") or "")
        exchange.values = exchange.parts.fields
    else:
        raise UnsupportedMediaType
    if exchange.values and not route.takes_cards:
        body.refuse_card_data(exchange.values, exchange.raw)


def _named_account(exchange: Exchange, received: Received) -> str | None:
    """The account that the header or, where the family allows it, the body or query names."""
    family = exchange.route.family
    header = received.header(b"service-account")
    if header is not None and not family.account_header:
        raise BadRequest("Service-Account is not accepted here.")
    if not family.account_field:
        return header
    field = exchange.values.get("account_id", exchange.query.get("account_id"))
    if field is None:
        return header
    if isinstance(field, bool) or not isinstance(field, str | int):
        raise InvalidAccountId
    named = str(field)
    if header is None or header == named:
        return named
    one, other = ids.parse_account_id(header), ids.parse_account_id(named)
    if one is None or other is None:
        raise InvalidAccountId
    if one[0] != other[0] or (one[1] and other[1]):
        raise AccountKeyMismatch(details={"header": "Service-Account", "field": "account_id"})
    return one[1] or named  # the full id of the two, which must be right
