-- What the worker sends: deliveries of events and IPNs, every attempt of them, and notices to people.
--
-- Deliveries to one place (a registered endpoint, or the host that an account's IPNs go to) are one queue. A worker
-- leases the queue, not its rows: so the number of requests in flight to a place is exact, a place that is down
-- costs the others nothing, and what is due is found without walking over a million rows of a dead place.

-- Events --------------------------------------------------------------------------------------------------------

ALTER TABLE event
    ALTER COLUMN event_id TYPE text COLLATE "C",
    ADD COLUMN audience text NOT NULL DEFAULT 'both' CHECK (audience IN ('both', 'account', 'platform', 'none'));

-- Event ids begin with the time, so these are also the order in which lists are read.
CREATE UNIQUE INDEX event_by_event_id ON event (account_id, event_id);
CREATE INDEX event_by_platform ON event (platform_id, event_id) WHERE platform_id IS NOT NULL;

ALTER TABLE webhook
    ADD COLUMN include_additive boolean NOT NULL DEFAULT false,
    ADD COLUMN ordered boolean NOT NULL DEFAULT false,
    ADD COLUMN disabled_reason text,
    ADD COLUMN disabled_at timestamptz;

-- Payment notifications -----------------------------------------------------------------------------------------

CREATE SEQUENCE ipn_id;

CREATE TABLE ipn (
    account_id      bigint NOT NULL,
    id              bigint NOT NULL,
    event_id        text COLLATE "C" NOT NULL,
    type            text NOT NULL,
    url             text NOT NULL,
    fields          jsonb NOT NULL,   -- [[name, value], …] in order; the signature is added when it is sent
    amount          text NOT NULL,    -- as printed, for the signature
    identifier      text NOT NULL,
    key_account_id  bigint NOT NULL,  -- whose key created the checkout, and which: its newest successor signs
    key_id          bigint NOT NULL,
    created_at      timestamptz NOT NULL,
    fanned_out      boolean NOT NULL DEFAULT false,
    PRIMARY KEY (account_id, id)
);
COMMENT ON TABLE ipn IS 'tenant: notifications of payment attempts, written with the attempt itself';
CREATE INDEX ipn_to_fan_out ON ipn (id) WHERE NOT fanned_out;
CREATE INDEX ipn_by_key ON ipn (key_account_id, event_id);

-- Deliveries ----------------------------------------------------------------------------------------------------

CREATE TABLE destination (
    account_id       bigint NOT NULL,
    place            text NOT NULL,  -- webhook:1001, or ipn:https://shop.example
    due_at           timestamptz,    -- its place in the queue: never after something there is due; null: nothing waits
    paused           boolean NOT NULL DEFAULT false,
    failing_since    timestamptz,    -- the first failure since the last success
    last_failure_at  timestamptz,
    lease_token      bigint NOT NULL DEFAULT 0,
    lease_until      timestamptz,    -- real time
    PRIMARY KEY (account_id, place)
) WITH (fillfactor = 50);
COMMENT ON TABLE destination IS 'tenant: where deliveries go, whose turn it is, and how it has been answering';
CREATE INDEX destination_due ON destination (due_at) WHERE due_at IS NOT NULL AND NOT paused;

CREATE SEQUENCE delivery_id START 1001;

CREATE TABLE delivery (
    account_id          bigint NOT NULL,  -- whose endpoint it is
    id                  bigint NOT NULL,
    channel             text NOT NULL CHECK (channel IN ('webhook', 'ipn')),
    place               text NOT NULL,
    webhook_id          bigint,
    source_account_id   bigint NOT NULL,  -- the row of event or ipn that it tells of
    source_id           bigint NOT NULL,
    event_id            text COLLATE "C" NOT NULL,
    type                text NOT NULL,
    order_key           text,             -- deliveries of one order to an ordered endpoint go one after another
    status              text NOT NULL DEFAULT 'pending'
                        CHECK (status IN ('pending', 'succeeded', 'failed', 'cancelled')),
    attempts            integer NOT NULL DEFAULT 0,
    step                integer NOT NULL DEFAULT 0,  -- attempts since the schedule was last begun
    exhausted           boolean NOT NULL DEFAULT false,
    next_attempt_at     timestamptz,
    last_response_code  smallint,
    last_error          text,
    duration_ms         integer,
    response_excerpt    text,
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, place, event_id),
    CHECK ((channel = 'webhook') = (webhook_id IS NOT NULL)),
    CHECK (NOT exhausted OR status = 'failed'),
    CHECK (next_attempt_at IS NULL OR status IN ('pending', 'failed'))
) WITH (fillfactor = 70);
COMMENT ON TABLE delivery IS 'tenant: one event or IPN to one place, until it is accepted or given up';
CREATE INDEX delivery_waiting ON delivery (account_id, place, next_attempt_at, id) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX delivery_in_order ON delivery (account_id, place, order_key, source_id)
    WHERE order_key IS NOT NULL AND next_attempt_at IS NOT NULL;

CREATE TABLE delivery_attempt (
    account_id        bigint NOT NULL,
    delivery_id       bigint NOT NULL,
    number            integer NOT NULL,
    url               text NOT NULL,
    sent_at           timestamptz NOT NULL,  -- real time, as signed
    at                timestamptz NOT NULL,  -- instance time
    duration_ms       integer NOT NULL,
    response_code     smallint,
    error             text,
    response_excerpt  text,
    PRIMARY KEY (account_id, delivery_id, number)
);
COMMENT ON TABLE delivery_attempt IS 'tenant: every attempt at a delivery, and what came back';

CREATE SEQUENCE replay_id START 1001;

CREATE TABLE replay (
    account_id    bigint NOT NULL,
    id            bigint NOT NULL,
    webhook_id    bigint NOT NULL,
    types         text[] NOT NULL,
    since         timestamptz NOT NULL,
    until         timestamptz NOT NULL,
    reached       text COLLATE "C" NOT NULL DEFAULT '',  -- the last event id looked at
    events        integer NOT NULL DEFAULT 0,
    status        text NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'done')),
    created_at    timestamptz NOT NULL,
    PRIMARY KEY (account_id, id)
);
COMMENT ON TABLE replay IS 'tenant: orders to send the events of a period again';
CREATE INDEX replay_running ON replay (id) WHERE status = 'running';

-- Notices -------------------------------------------------------------------------------------------------------

CREATE SEQUENCE notice_id START 1001;

CREATE TABLE notice (
    account_id       bigint NOT NULL,
    id               bigint NOT NULL,
    channel          text NOT NULL CHECK (channel IN ('email', 'sms')),
    template         text NOT NULL,
    recipient        text NOT NULL,
    subject          text NOT NULL,
    body_text        text NOT NULL,
    body_html        text NOT NULL DEFAULT '',
    message_id       text NOT NULL,  -- the same on every attempt, so that a mailbox shows it once
    status           text NOT NULL DEFAULT 'pending'
                     CHECK (status IN ('pending', 'sent', 'kept', 'failed')),  -- kept: there is nothing to send it by
    attempts         integer NOT NULL DEFAULT 0,
    next_attempt_at  timestamptz,
    lease_token      bigint NOT NULL DEFAULT 0,
    lease_until      timestamptz,    -- real time
    last_error       text,
    created_at       timestamptz NOT NULL,
    sent_at          timestamptz,
    PRIMARY KEY (account_id, id)
);
COMMENT ON TABLE notice IS 'tenant: messages to people, written with what they tell of';
CREATE INDEX notice_waiting ON notice (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX notice_newest ON notice (id DESC);

-- The sandbox's fixture -----------------------------------------------------------------------------------------

INSERT INTO event (account_id, id, event_id, type, platform_id, body, created_at, fanned_out)
SELECT account_id, nextval('event_id'), 'evt_sandbox000000000000000' || account_id, 'account.update', platform_id,
       convert_to(json_build_object(
           'id', 'evt_sandbox000000000000000' || account_id, 'type', 'account.update',
           'created_at', '2025-01-01T00:00:00Z', 'account_id', public_id, 'platform_id', platform_public_id,
           'livemode', false, 'api_version', 'v2', 'data', json_build_object('account', json_build_object('id', public_id)),
           'previous', json_build_object(), 'request', json_build_object('id', null, 'idempotency_key', null)
       )::text, 'UTF8'),
       '2025-01-01T00:00:00Z', true
FROM account
WHERE account_id IN (1, 2, 3);

INSERT INTO delivery
    (account_id, id, channel, place, webhook_id, source_account_id, source_id, event_id, type, status, attempts, step,
     exhausted, last_response_code, last_error, duration_ms, response_excerpt, created_at, updated_at)
SELECT event.account_id, sample.id, 'webhook', 'webhook:' || sample.id, sample.id, event.account_id, event.id,
       event.event_id, event.type, sample.status, sample.attempts, sample.attempts, sample.exhausted, sample.code,
       sample.error, sample.took, sample.excerpt, event.created_at, event.created_at
FROM (VALUES (1, 'pending', 0, false, NULL::smallint, NULL, NULL::integer, NULL),
             (2, 'succeeded', 1, false, 200::smallint, NULL, 38, 'ok'),
             (3, 'failed', 10, true, 500::smallint, 'status', 41, 'error'),
             (4, 'cancelled', 1, false, 410::smallint, 'gone', 12, ''))
     AS sample (id, status, attempts, exhausted, code, error, took, excerpt)
CROSS JOIN event
WHERE event.account_id IN (1, 2, 3);

-- What the service's role may do --------------------------------------------------------------------------------

GRANT USAGE ON SEQUENCE ipn_id, delivery_id, replay_id, notice_id TO bursar_app;
GRANT SELECT ON ipn, destination, delivery, delivery_attempt, replay, notice TO bursar_app;
GRANT INSERT, UPDATE (fanned_out) ON ipn TO bursar_app;
GRANT INSERT, UPDATE ON destination, delivery, replay, notice TO bursar_app;
GRANT INSERT ON delivery_attempt TO bursar_app;
