-- What every part of the service stands on: the clock, accounts and their keys, idempotency, events, operations,
-- the operator's audit trail, and the counters of the documented rate limits.
--
-- Each table declares its class in its comment, and a test holds it to that class:
--   tenant     account_id leads its primary key and is part of every unique constraint;
--   directory  (kind, value) is its only unique key and leads from a value to an account;
--   reference  small, the same everywhere, bound to no account.

-- Time ----------------------------------------------------------------------------------------------------------

CREATE TABLE instance (
    one           boolean PRIMARY KEY DEFAULT true CHECK (one),
    clock_offset  interval NOT NULL DEFAULT '0'
);
COMMENT ON TABLE instance IS 'reference: one row, how far the instance clock is ahead of the real one';
INSERT INTO instance DEFAULT VALUES;

-- The instance's time: what every record is dated with. Constant within a transaction, like now().
CREATE FUNCTION instance_now() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT now() + clock_offset FROM instance $$;

-- Accounts and keys ---------------------------------------------------------------------------------------------

CREATE TABLE directory (
    kind        text NOT NULL,
    value       text NOT NULL,
    account_id  bigint NOT NULL,
    id          bigint NOT NULL,
    PRIMARY KEY (kind, value)
);
COMMENT ON TABLE directory IS 'directory: who holds an e-mail address, a key hash, a reference';

CREATE SEQUENCE account_number START 1001;

CREATE TABLE account (
    account_id                bigint PRIMARY KEY,
    public_id                 text NOT NULL,
    kind                      text NOT NULL CHECK (kind IN ('merchant', 'platform')),
    platform_id               bigint,
    platform_public_id        text,
    business_company_name     text NOT NULL,
    email                     text NOT NULL,
    country_code              text NOT NULL,
    currency                  text NOT NULL,
    status                    text NOT NULL CHECK (status IN ('pending', 'active', 'review', 'banned')),
    kyc_status                text NOT NULL CHECK (kyc_status IN ('pending', 'verified', 'rejected')),
    connect_status            text NOT NULL DEFAULT 'active' CHECK (connect_status IN ('active', 'paused', 'review')),
    connect_enabled           boolean NOT NULL DEFAULT false,
    partner_enabled           boolean NOT NULL DEFAULT false,
    payments_paused           boolean NOT NULL DEFAULT false,
    payouts_paused            boolean NOT NULL DEFAULT false,
    fee_payer                 text NOT NULL DEFAULT 'connected_account' CHECK (fee_payer IN ('connected_account', 'platform')),
    connect_email_sms_handle  text NOT NULL DEFAULT 'neropay' CHECK (connect_email_sms_handle IN ('neropay', 'platform')),
    merchant_pricing          jsonb NOT NULL DEFAULT '{}',
    application_fee_defaults  jsonb NOT NULL DEFAULT '{}',
    capabilities              jsonb NOT NULL DEFAULT '{}',
    payout_hard_caps          jsonb NOT NULL DEFAULT '{}',
    metadata                  jsonb NOT NULL DEFAULT '{}',
    public_key                text NOT NULL,
    client_key                text NOT NULL,
    created_at                timestamptz NOT NULL,
    updated_at                timestamptz NOT NULL,
    CHECK (platform_id IS NULL OR platform_id <> account_id),
    CHECK ((platform_id IS NULL) = (platform_public_id IS NULL))
);
COMMENT ON TABLE account IS 'tenant: a merchant, a platform, or a merchant connected to a platform';
CREATE INDEX account_by_platform ON account (platform_id, account_id) WHERE platform_id IS NOT NULL;

CREATE SEQUENCE api_key_id START 1001;

CREATE TABLE api_key (
    account_id   bigint NOT NULL,
    id           bigint NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('secret', 'test', 'restricted')),
    scopes       text[] NOT NULL DEFAULT '{}',
    lookup       text NOT NULL,   -- keyed hash; also in the directory, where it is unique
    sealed       bytea NOT NULL,  -- for the worker, which signs IPNs with it
    hint         text NOT NULL,
    replaces_id  bigint,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,     -- end of the grace period of a rotated key
    revoked_at   timestamptz,
    PRIMARY KEY (account_id, id)
);
COMMENT ON TABLE api_key IS 'tenant: secret keys, by keyed hash and sealed for the worker';

CREATE SEQUENCE team_member_id START 1001;

CREATE TABLE team_member (
    account_id  bigint NOT NULL,
    id          bigint NOT NULL,
    name        text NOT NULL,
    email       text NOT NULL,
    active      boolean NOT NULL DEFAULT true,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, email)
);
COMMENT ON TABLE team_member IS 'tenant: people of a platform or merchant';

CREATE TABLE partner (
    account_id          bigint NOT NULL,  -- the parent platform
    id                  bigint NOT NULL,  -- the partner's own account
    name                text NOT NULL,
    state               text NOT NULL CHECK (state IN ('pending', 'active', 'suspended')),
    model               text NOT NULL CHECK (model IN ('rate', 'revenue_share')),
    share_bps           integer NOT NULL CHECK (share_bps BETWEEN 0 AND 10000),
    policies            jsonb NOT NULL,
    agreement_accepted_at  timestamptz,
    created_at          timestamptz NOT NULL,
    PRIMARY KEY (account_id, id),
    CHECK ((state = 'pending') = (agreement_accepted_at IS NULL))
);
COMMENT ON TABLE partner IS 'tenant: second-tier platforms of a parent platform';

-- Requests ------------------------------------------------------------------------------------------------------

CREATE TABLE idempotency_key (
    account_id   bigint NOT NULL,  -- the owner: the account of the key that called, 0 for the operator
    family       text NOT NULL,
    scope        text NOT NULL,    -- what else bounds the key in its family: target, method and path, or nothing
    key          text NOT NULL,
    fingerprint  bytea NOT NULL,
    status       smallint,         -- null while running
    headers      text,
    body         bytea,
    sealed       boolean NOT NULL DEFAULT false,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (account_id, family, scope, key)
) WITH (fillfactor = 80);
COMMENT ON TABLE idempotency_key IS 'tenant: what was asked under a key, and the bytes that were answered';
CREATE INDEX idempotency_key_expiry ON idempotency_key (expires_at);

-- Claims a key, or says who holds it. A twin in flight elsewhere is waited for, but not for long.
CREATE FUNCTION idempotency_claim(
    p_account_id bigint, p_family text, p_scope text, p_key text, p_fingerprint bytea, p_keep interval,
    OUT moment timestamptz, OUT claimed boolean,
    OUT held_fingerprint bytea, OUT held_status smallint, OUT held_headers text, OUT held_body bytea,
    OUT held_sealed boolean, OUT held_since timestamptz
)
LANGUAGE plpgsql SET lock_timeout = '250ms'
AS $$
BEGIN
    moment := instance_now();
    INSERT INTO idempotency_key AS held (account_id, family, scope, key, fingerprint, created_at, expires_at)
    VALUES (p_account_id, p_family, p_scope, p_key, p_fingerprint, moment, moment + p_keep)
    ON CONFLICT (account_id, family, scope, key) DO UPDATE
        SET fingerprint = excluded.fingerprint, status = NULL, headers = NULL, body = NULL, sealed = false,
            created_at = excluded.created_at, expires_at = excluded.expires_at
        WHERE held.expires_at <= excluded.created_at AND held.status IS NOT NULL;
    claimed := FOUND;
    IF NOT claimed THEN
        SELECT fingerprint, status, headers, body, sealed, created_at
        INTO held_fingerprint, held_status, held_headers, held_body, held_sealed, held_since
        FROM idempotency_key
        WHERE account_id = p_account_id AND family = p_family AND scope = p_scope AND key = p_key;
    END IF;
END $$;

CREATE SEQUENCE operation_id;

-- A write that calls a processor: the intent, committed before the call, so that a worker can finish what its
-- caller could not.
CREATE TABLE operation (
    account_id   bigint NOT NULL,
    id           bigint NOT NULL,
    kind         text NOT NULL,
    state        text NOT NULL DEFAULT 'calling' CHECK (state IN ('calling', 'unknown', 'done', 'review')),
    intent       jsonb NOT NULL,
    owner_id     bigint NOT NULL,
    family       text,
    scope        text,
    key          text,
    request_id   text NOT NULL,
    attempts     integer NOT NULL DEFAULT 0,
    due_at       timestamptz,
    lease_until  timestamptz,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    PRIMARY KEY (account_id, id)
);
COMMENT ON TABLE operation IS 'tenant: calls to a processor, from intent to outcome';
CREATE INDEX operation_due ON operation (due_at) WHERE state IN ('calling', 'unknown');

CREATE UNLOGGED TABLE rate_counter (
    kind          text NOT NULL,
    value         text NOT NULL,
    window_start  timestamptz NOT NULL,
    used          integer NOT NULL,
    PRIMARY KEY (kind, value)
) WITH (fillfactor = 50);
COMMENT ON TABLE rate_counter IS 'directory: requests of one caller in the current minute';

-- Counts one request in the current real-time minute; the windows of the documented limits are exact everywhere.
CREATE FUNCTION rate_count(p_kind text, p_value text, OUT used integer, OUT resets_in integer)
LANGUAGE sql
AS $$
    INSERT INTO rate_counter AS c (kind, value, window_start, used)
    VALUES (p_kind, p_value, date_trunc('minute', clock_timestamp()), 1)
    ON CONFLICT (kind, value) DO UPDATE
        SET used = CASE WHEN c.window_start >= excluded.window_start THEN c.used + 1 ELSE 1 END,
            window_start = greatest(c.window_start, excluded.window_start)
    RETURNING c.used,
        greatest(1, ceil(extract(epoch FROM c.window_start + interval '1 minute' - clock_timestamp())))::integer
$$;

-- Events --------------------------------------------------------------------------------------------------------

CREATE SEQUENCE event_id;

CREATE TABLE event (
    account_id   bigint NOT NULL,
    id           bigint NOT NULL,
    event_id     text NOT NULL,
    type         text NOT NULL,
    platform_id  bigint,
    body         bytea NOT NULL,  -- frozen: every delivery sends these bytes
    created_at   timestamptz NOT NULL,
    fanned_out   boolean NOT NULL DEFAULT false,
    PRIMARY KEY (account_id, id)
);
COMMENT ON TABLE event IS 'tenant: what happened, written with the change itself';
CREATE INDEX event_to_fan_out ON event (id) WHERE NOT fanned_out;

CREATE SEQUENCE webhook_id START 1001;

CREATE TABLE webhook (
    account_id          bigint NOT NULL,
    id                  bigint NOT NULL,
    url                 text NOT NULL,
    events              text[] NOT NULL,
    description         text NOT NULL DEFAULT '',
    status              text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused', 'disabled')),
    secret_sealed       bytea NOT NULL,
    secret_hint         text NOT NULL,
    previous_sealed     bytea,
    previous_until      timestamptz,
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL,
    PRIMARY KEY (account_id, id)
);
COMMENT ON TABLE webhook IS 'tenant: endpoints that an account registered for its events';

-- Operator ------------------------------------------------------------------------------------------------------

CREATE SEQUENCE operator_audit_id;

CREATE TABLE operator_audit (
    account_id  bigint NOT NULL,  -- 0: the instance as a whole
    id          bigint NOT NULL,
    actor       text NOT NULL,
    break_glass boolean NOT NULL,
    action      text NOT NULL,
    target      text NOT NULL,
    status      smallint NOT NULL,
    before      jsonb,
    after       jsonb,
    request_id  text NOT NULL,
    at          timestamptz NOT NULL,       -- instance time
    real_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (account_id, id)
);
COMMENT ON TABLE operator_audit IS 'tenant: who did what through the operator API';
CREATE INDEX operator_audit_newest ON operator_audit (id DESC);

CREATE SEQUENCE worker_command_id;

-- What the operator asks of the worker, which alone runs due work.
CREATE TABLE worker_command (
    id           bigint PRIMARY KEY,
    kind         text NOT NULL CHECK (kind IN ('advance_clock', 'run_jobs')),
    argument     jsonb NOT NULL,
    result       jsonb,
    error        text,
    lease_until  timestamptz,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    done_at      timestamptz
);
COMMENT ON TABLE worker_command IS 'reference: orders to the worker, and what came of them';
CREATE INDEX worker_command_waiting ON worker_command (id) WHERE done_at IS NULL;

-- The sandbox's fixture -----------------------------------------------------------------------------------------
-- What test keys act on: a merchant, a platform, a merchant connected to it, and a sample of every resource in every
-- state. Their numbers are below those of real accounts and objects, and nothing done to them is kept.

INSERT INTO account
    (account_id, public_id, kind, platform_id, platform_public_id, business_company_name, email, country_code, currency,
     status, kyc_status, connect_enabled, public_key, client_key, created_at, updated_at)
VALUES
    (1, 'accsandb0xmerchant0_1', 'merchant', NULL, NULL, 'Sandbox Merchant', 'merchant@sandbox.invalid', 'GB', 'GBP',
     'active', 'verified', false, '', '', '2025-01-01T00:00:00Z', '2025-01-01T00:00:00Z'),
    (2, 'accsandb0xp1atf0rm0_2', 'platform', NULL, NULL, 'Sandbox Platform', 'platform@sandbox.invalid', 'GB', 'GBP',
     'active', 'verified', true, '', '', '2025-01-01T00:00:00Z', '2025-01-01T00:00:00Z'),
    (3, 'accsandb0xc0nnected_3', 'merchant', 2, 'accsandb0xp1atf0rm0_2', 'Sandbox Connected Shop',
     'connected@sandbox.invalid', 'GB', 'GBP', 'active', 'verified', false, '', '', '2025-01-01T00:00:00Z',
     '2025-01-01T00:00:00Z');

INSERT INTO webhook
    (account_id, id, url, events, description, status, secret_sealed, secret_hint, created_at, updated_at)
SELECT account_id, id, 'https://example.com/webhooks', '{*}', 'Sample', status, '', 'whsec_…', '2025-01-01T00:00:00Z',
       '2025-01-01T00:00:00Z'
FROM (VALUES (1, 'active'), (2, 'paused'), (3, 'disabled')) AS sample (id, status)
CROSS JOIN (VALUES (1), (2), (3)) AS fixture (account_id);

INSERT INTO api_key (account_id, id, kind, scopes, lookup, sealed, hint, created_at, expires_at, revoked_at)
SELECT account_id, id, kind, scopes, '', '', hint, '2025-01-01T00:00:00Z', expires_at, revoked_at
FROM (VALUES (1, 'secret', '{}'::text[], 'sk_live_…0001', NULL::timestamptz, NULL::timestamptz),
             (2, 'secret', '{}', 'sk_live_…0002', '2125-01-01T00:00:00Z', NULL),
             (3, 'restricted', '{payments:write}', 'rk_live_…0003', NULL, '2025-01-02T00:00:00Z'))
     AS sample (id, kind, scopes, hint, expires_at, revoked_at)
CROSS JOIN (VALUES (1), (2), (3)) AS fixture (account_id);

-- What the service's role may do --------------------------------------------------------------------------------

GRANT USAGE ON SCHEMA public TO bursar_app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO bursar_app;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO bursar_app;
GRANT UPDATE (clock_offset) ON instance TO bursar_app;
GRANT INSERT, DELETE ON directory TO bursar_app;
GRANT INSERT, UPDATE ON account, api_key, team_member, partner TO bursar_app;
GRANT INSERT, UPDATE, DELETE ON idempotency_key, operation, rate_counter, webhook, worker_command TO bursar_app;
GRANT INSERT, UPDATE (fanned_out) ON event TO bursar_app;
GRANT INSERT ON operator_audit TO bursar_app;
