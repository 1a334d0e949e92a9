-- Card processors: the inbox of what they tell us, and, for test instances, the books of the simulated one.
--
-- The simulator is another company that happens to live in the same database: its books are a schema of their own,
-- nothing of ours refers to them, and it never reads ours. On a live instance they stay empty.

-- What processors tell us ---------------------------------------------------------------------------------------

-- A callback is kept as it came, once, and answered at once; the worker applies it. A mismatch with what we know
-- (amount, currency, merchant, reference) is quarantined for a person to look at, and applied to nothing.
CREATE TABLE processor_inbox (
    account_id   bigint NOT NULL,  -- whose the processor says it is; 0: nobody's
    provider     text NOT NULL,
    event_id     text NOT NULL,
    kind         text NOT NULL,
    raw          bytea NOT NULL,   -- the bytes that were signed
    state        text NOT NULL DEFAULT 'new' CHECK (state IN ('new', 'done', 'quarantined')),
    reason       text,
    attempts     integer NOT NULL DEFAULT 0,
    due_at       timestamptz NOT NULL,
    lease_token  bigint NOT NULL DEFAULT 0,
    lease_until  timestamptz,      -- real time
    received_at  timestamptz NOT NULL,
    finished_at  timestamptz,
    PRIMARY KEY (account_id, provider, event_id),
    CHECK ((state = 'quarantined') = (reason IS NOT NULL)),
    CHECK ((state = 'new') = (finished_at IS NULL))
);
COMMENT ON TABLE processor_inbox IS 'tenant: what card processors told us, once each, until it is applied';
CREATE INDEX processor_inbox_due ON processor_inbox (due_at) WHERE state = 'new';
CREATE INDEX processor_inbox_quarantined ON processor_inbox (received_at) WHERE state = 'quarantined';

-- The simulator's books -----------------------------------------------------------------------------------------

CREATE SCHEMA simulator;

CREATE SEQUENCE simulator.payment_id START 1001;

CREATE TABLE simulator.payment (
    id                  bigint PRIMARY KEY,
    reference           text NOT NULL UNIQUE CHECK (reference ~ '^sim_[0-9A-Za-z]{20}$'),
    key                 text NOT NULL UNIQUE,
    account_id          bigint NOT NULL,  -- the merchant, as its customer, the service, calls it
    merchant_reference  text NOT NULL,
    merchant_name       text NOT NULL,
    description         text NOT NULL,
    amount_minor        bigint NOT NULL CHECK (amount_minor > 0),
    currency            text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    return_url          text NOT NULL,
    state               text NOT NULL DEFAULT 'requires_payment'
        CHECK (state IN ('requires_payment', 'requires_action', 'processing', 'succeeded', 'cancelled')),
    settles_at          timestamptz,      -- while it is processing: when the outcome will be known
    captured_minor      bigint NOT NULL DEFAULT 0,
    refunded_minor      bigint NOT NULL DEFAULT 0,
    available_at_once   boolean NOT NULL DEFAULT false,
    concern             text CHECK (concern IN ('disputed', 'proof_requested')),
    created_at          timestamptz NOT NULL,
    CHECK (captured_minor = CASE state WHEN 'succeeded' THEN amount_minor ELSE 0 END),
    CHECK (refunded_minor BETWEEN 0 AND captured_minor),
    CHECK ((state = 'processing') = (settles_at IS NOT NULL))
);
COMMENT ON TABLE simulator.payment IS 'reference: payments of the simulated card processor';
CREATE INDEX payment_settling ON simulator.payment (settles_at) WHERE state = 'processing';

-- Of a card only the scenario it plays, its last four digits and its holder's name; no number is ever stored.
CREATE TABLE simulator.attempt (
    payment_id   bigint NOT NULL,
    number       integer NOT NULL,
    key          text NOT NULL,
    answer_key   text,                    -- the call that answered its 3-D Secure challenge
    scenario     text NOT NULL,
    last4        text NOT NULL CHECK (last4 ~ '^[0-9]{4}$'),
    holder       text NOT NULL,
    state        text NOT NULL CHECK (state IN ('requires_action', 'processing', 'succeeded', 'failed')),
    error_code   text,
    decline_code text,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (payment_id, number),
    UNIQUE (payment_id, key),
    CHECK ((state = 'failed') = (error_code IS NOT NULL)),
    CHECK (decline_code IS NULL OR error_code IS NOT NULL)
);
COMMENT ON TABLE simulator.attempt IS 'reference: what customers tried to pay with, by scenario';
-- One at a time, and one success at the most.
CREATE UNIQUE INDEX attempt_open ON simulator.attempt (payment_id) WHERE state IN ('requires_action', 'processing');
CREATE UNIQUE INDEX attempt_succeeded ON simulator.attempt (payment_id) WHERE state = 'succeeded';

CREATE TABLE simulator.refund (
    key           text PRIMARY KEY,
    reference     text NOT NULL UNIQUE,
    payment_id    bigint NOT NULL,
    amount_minor  bigint NOT NULL,
    currency      text NOT NULL,
    refused_code  text,                   -- null: the money went back
    created_at    timestamptz NOT NULL,
    CHECK (refused_code IS NOT NULL OR amount_minor > 0)
);
COMMENT ON TABLE simulator.refund IS 'reference: refunds, and refusals, of the simulated card processor';
CREATE INDEX refund_by_payment ON simulator.refund (payment_id);

CREATE TABLE simulator.payout (
    reference           text PRIMARY KEY,
    key                 text NOT NULL UNIQUE,
    account_id          bigint NOT NULL,
    merchant_reference  text NOT NULL,
    amount_minor        bigint NOT NULL CHECK (amount_minor > 0),
    currency            text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    scenario            text NOT NULL,
    last4               text NOT NULL,
    state               text NOT NULL CHECK (state IN ('refused', 'pending', 'in_transit', 'paid', 'failed', 'returned')),
    failure_code        text,
    arrives_at          timestamptz NOT NULL,
    due_at              timestamptz,      -- of its next step; null: nothing more will happen by itself
    created_at          timestamptz NOT NULL,
    CHECK ((state IN ('refused', 'failed', 'returned')) = (failure_code IS NOT NULL))
);
COMMENT ON TABLE simulator.payout IS 'reference: payouts of the simulated bank; account numbers are not kept';
CREATE INDEX payout_due ON simulator.payout (due_at) WHERE due_at IS NOT NULL;

CREATE SEQUENCE simulator.movement_id;

-- The statement: each movement of money once, from the service's point of view.
CREATE TABLE simulator.movement (
    id            bigint PRIMARY KEY,
    kind          text NOT NULL CHECK (kind IN ('capture', 'refund', 'payout', 'payout_return')),
    reference     text NOT NULL,
    account_id    bigint NOT NULL,
    currency      text NOT NULL,
    amount_minor  bigint NOT NULL,        -- signed: a capture brings money, a payout takes it
    at            timestamptz NOT NULL,
    UNIQUE (kind, reference),
    CHECK (CASE WHEN kind IN ('capture', 'payout_return') THEN amount_minor > 0 ELSE amount_minor < 0 END)
);
COMMENT ON TABLE simulator.movement IS 'reference: the statement of the simulated card processor and bank';

CREATE SEQUENCE simulator.callback_id;

CREATE TABLE simulator.callback (
    id            bigint PRIMARY KEY,
    event_id      text NOT NULL UNIQUE,
    about         text NOT NULL,          -- the payment or payout; callbacks about one are sent in order
    body          bytea NOT NULL,
    copies        smallint NOT NULL DEFAULT 1 CHECK (copies BETWEEN 1 AND 6),
    held          boolean NOT NULL DEFAULT false,  -- waits until a later one about the same was sent
    due_at        timestamptz NOT NULL,
    attempts      integer NOT NULL DEFAULT 0,
    lease_until   timestamptz,            -- real time
    delivered_at  timestamptz,
    created_at    timestamptz NOT NULL
);
COMMENT ON TABLE simulator.callback IS 'reference: what the simulated processor has to tell, until it was heard';
CREATE INDEX callback_due ON simulator.callback (due_at) WHERE delivered_at IS NULL;
CREATE INDEX callback_waiting ON simulator.callback (about) WHERE delivered_at IS NULL;

CREATE SEQUENCE simulator.fault_id;

CREATE TABLE simulator.fault (
    id          bigint PRIMARY KEY,
    operation   text NOT NULL CHECK (operation IN ('start', 'payment', 'refund', 'cancel', 'payout', 'collection',
                                                   'funding', 'terminal')),
    kind        text NOT NULL CHECK (kind IN ('timeout', 'error', 'duplicate_callback', 'late_callback',
                                              'out_of_order')),
    remaining   integer NOT NULL CHECK (remaining >= 0),
    created_at  timestamptz NOT NULL
);
COMMENT ON TABLE simulator.fault IS 'reference: how the next calls of the simulated processor shall misbehave';
CREATE INDEX fault_waiting ON simulator.fault (operation, id) WHERE remaining > 0;

-- What the service's role may do --------------------------------------------------------------------------------

GRANT SELECT, INSERT, UPDATE ON processor_inbox TO bursar_app;
GRANT USAGE ON SCHEMA simulator TO bursar_app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA simulator TO bursar_app;
GRANT SELECT ON ALL TABLES IN SCHEMA simulator TO bursar_app;
GRANT INSERT, UPDATE ON simulator.payment, simulator.attempt, simulator.payout, simulator.callback, simulator.fault
    TO bursar_app;
GRANT INSERT ON simulator.refund, simulator.movement TO bursar_app;
