-- Taking payments: the payment with its checkout, every attempt at it, links, refunds, proof of what was sold, and the
-- cases that a person must look at.
--
-- A payment is its transaction, too: one row, one id. What a customer did at the processor is only ever learnt by asking
-- the processor; a callback or a return from its page is a reason to ask.

-- Payments ------------------------------------------------------------------------------------------------------

CREATE SEQUENCE payment_id START 100001;

CREATE TABLE payment (
    account_id                  bigint NOT NULL,
    id                          bigint NOT NULL,
    kind                        text NOT NULL CHECK (kind IN ('hosted', 'link', 'terminal', 'invoice', 'contract',
                                                              'store', 'subscription')),
    channel                     text NOT NULL CHECK (channel IN ('api', 'card', 'keyed')),  -- whose price applies
    payment_reference           text NOT NULL,  -- made from the id, so it needs no look-up
    identifier                  text NOT NULL,
    amount_minor                bigint NOT NULL CHECK (amount_minor > 0),
    currency                    text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    details                     text NOT NULL,
    ipn_url                     text,
    success_url                 text,
    cancel_url                  text,
    customer_name               text,
    customer_email              text,
    customer_phone              text,
    metadata                    jsonb NOT NULL,
    status                      text NOT NULL DEFAULT 'pending'
                                CHECK (status IN ('pending', 'succeeded', 'failed', 'cancelled', 'refunded')),
    remark                      text,
    link_id                     bigint,
    key_account_id              bigint NOT NULL,  -- whose key created it, and which: it signs the IPN
    key_id                      bigint NOT NULL,
    -- As agreed when it was created.
    platform_id                 bigint,
    fee_payer                   text NOT NULL CHECK (fee_payer IN ('connected_account', 'platform')),
    application_fee_minor       bigint CHECK (application_fee_minor BETWEEN 0 AND amount_minor),
    -- At the processor.
    started_at                  timestamptz,  -- the intent to open a checkout there, before it was called
    processor_reference         text,
    attempts                    integer NOT NULL DEFAULT 0,
    closing                     text CHECK (closing IN ('cancel', 'expiry', 'attempts')),  -- asked to be closed
    due_at                      timestamptz,  -- when to close it, or to ask the processor again
    looks                       integer NOT NULL DEFAULT 0,
    lease_until                 timestamptz,  -- real time
    -- The money.
    fee_minor                   bigint NOT NULL DEFAULT 0 CHECK (fee_minor >= 0),
    refunded_minor              bigint NOT NULL DEFAULT 0 CHECK (refunded_minor >= 0),
    refunding_minor             bigint NOT NULL DEFAULT 0 CHECK (refunding_minor >= 0),  -- held for refunds under way
    application_fee_back_minor  bigint NOT NULL DEFAULT 0 CHECK (application_fee_back_minor >= 0),
    reserve_minor               bigint NOT NULL DEFAULT 0 CHECK (reserve_minor >= 0),
    proof_status                text CHECK (proof_status IN ('requested', 'submitted', 'approved', 'rejected')),
    expires_at                  timestamptz NOT NULL,
    paid_at                     timestamptz,
    cancelled_at                timestamptz,
    created_at                  timestamptz NOT NULL,
    updated_at                  timestamptz NOT NULL,
    PRIMARY KEY (account_id, id),
    CONSTRAINT payment_refunds_within CHECK (refunded_minor + refunding_minor <= amount_minor),
    CONSTRAINT payment_fee_back_within CHECK (application_fee_back_minor <= coalesce(application_fee_minor, 0)),
    CONSTRAINT payment_refunded_in_full CHECK ((status = 'refunded') = (refunded_minor = amount_minor)),
    CONSTRAINT payment_paid_once CHECK ((paid_at IS NOT NULL) = (status IN ('succeeded', 'refunded'))),
    CONSTRAINT payment_cancelled_then CHECK ((cancelled_at IS NOT NULL) = (status = 'cancelled')),
    CONSTRAINT payment_platform_fee CHECK (platform_id IS NOT NULL OR application_fee_minor IS NULL),
    CONSTRAINT payment_done_is_not_due CHECK (status = 'pending' OR due_at IS NULL),
    CONSTRAINT payment_started_first CHECK (processor_reference IS NULL OR started_at IS NOT NULL)
) WITH (fillfactor = 85);
COMMENT ON TABLE payment IS 'tenant: payments with their checkouts; each is a transaction, too';

-- One live checkout per order. An order whose checkout was closed unpaid may have another.
CREATE UNIQUE INDEX payment_live_identifier ON payment (account_id, identifier)
    WHERE status IN ('pending', 'succeeded', 'refunded');
CREATE INDEX payment_closed_identifier ON payment (account_id, identifier) WHERE status IN ('failed', 'cancelled');
CREATE INDEX payment_by_id ON payment (id);
CREATE INDEX payment_by_time ON payment (account_id, created_at, id);
CREATE INDEX payment_proof ON payment (account_id, id) WHERE proof_status IN ('requested', 'submitted', 'rejected');
CREATE INDEX payment_due ON payment (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX payment_by_link ON payment (account_id, link_id, id) WHERE link_id IS NOT NULL;

CREATE TABLE payment_attempt (
    account_id    bigint NOT NULL,
    payment_id    bigint NOT NULL,
    n             integer NOT NULL,
    reference     text NOT NULL,  -- the processor's name for it
    status        text NOT NULL CHECK (status IN ('failed', 'succeeded')),
    error_code    text,
    decline_code  text,
    message       text,
    holder        text,           -- the name on the card, as the processor reports it
    last4         text CHECK (last4 ~ '^[0-9]{4}$'),
    at            timestamptz NOT NULL,
    PRIMARY KEY (account_id, payment_id, n),
    CONSTRAINT payment_attempt_once UNIQUE (account_id, payment_id, reference),
    CHECK ((status = 'failed') = (error_code IS NOT NULL))
);
COMMENT ON TABLE payment_attempt IS 'tenant: every attempt to pay, as the processor reported it';

-- Links ---------------------------------------------------------------------------------------------------------

CREATE SEQUENCE payment_link_id START 1001;

CREATE TABLE payment_link (
    account_id             bigint NOT NULL,
    id                     bigint NOT NULL,
    reference              text NOT NULL,
    amount_minor           bigint NOT NULL CHECK (amount_minor > 0),
    currency               text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    details                text NOT NULL,
    ipn_url                text,
    success_url            text,
    cancel_url             text,
    customer_name          text,
    customer_email         text,
    metadata               jsonb NOT NULL,
    application_fee_minor  bigint CHECK (application_fee_minor BETWEEN 0 AND amount_minor),
    status                 text NOT NULL DEFAULT 'pending'
                           CHECK (status IN ('pending', 'paid', 'cancelled', 'expired')),
    max_payments           integer NOT NULL CHECK (max_payments > 0),
    payments               integer NOT NULL DEFAULT 0,  -- paid
    opened                 integer NOT NULL DEFAULT 0,  -- checkouts ever made for it
    key_account_id         bigint NOT NULL,
    key_id                 bigint NOT NULL,
    expires_at             timestamptz,
    created_at             timestamptz NOT NULL,
    updated_at             timestamptz NOT NULL,
    PRIMARY KEY (account_id, id)
);
COMMENT ON TABLE payment_link IS 'tenant: simple links to pay, each with one or more payments';
CREATE INDEX payment_link_expiry ON payment_link (expires_at) WHERE status = 'pending' AND expires_at IS NOT NULL;
CREATE INDEX payment_link_by_id ON payment_link (id);

-- Refunds -------------------------------------------------------------------------------------------------------

CREATE SEQUENCE refund_id START 1001;

CREATE TABLE refund (
    account_id                      bigint NOT NULL,
    id                              bigint NOT NULL,
    payment_id                      bigint NOT NULL,
    amount_minor                    bigint NOT NULL CHECK (amount_minor > 0),
    currency                        text NOT NULL,
    reason                          text,
    status                          text NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed')),
    failure_reason                  text,
    application_fee_reversed_minor  bigint NOT NULL CHECK (application_fee_reversed_minor >= 0),
    processor_reference             text,
    created_at                      timestamptz NOT NULL,
    updated_at                      timestamptz NOT NULL,
    PRIMARY KEY (account_id, id),
    CHECK ((status = 'failed') = (failure_reason IS NOT NULL))
);
COMMENT ON TABLE refund IS 'tenant: money on its way back to customers, and what became of it';
CREATE INDEX refund_by_payment ON refund (account_id, payment_id, id);

-- Proof ---------------------------------------------------------------------------------------------------------

CREATE SEQUENCE proof_request_id START 1001;

CREATE TABLE proof_request (
    account_id             bigint NOT NULL,
    id                     bigint NOT NULL,
    payment_id             bigint NOT NULL,
    status                 text NOT NULL CHECK (status IN ('requested', 'submitted', 'approved', 'rejected')),
    reason                 text NOT NULL,
    invoice_file_required  boolean NOT NULL,
    courier_company        text,
    tracking_number        text,
    buyer_firstname        text,
    buyer_lastname         text,
    buyer_phone            text,
    buyer_email            text,
    merchant_notes         text,
    staff_notes            text,
    releases               integer NOT NULL DEFAULT 0,
    submitted_at           timestamptz,
    decided_at             timestamptz,
    created_at             timestamptz NOT NULL,
    updated_at             timestamptz NOT NULL,
    PRIMARY KEY (account_id, id)
);
COMMENT ON TABLE proof_request IS 'tenant: what staff want to see of a sale, and what the merchant sent';
CREATE INDEX proof_request_by_payment ON proof_request (account_id, payment_id, id);

-- Cases for a person --------------------------------------------------------------------------------------------------

CREATE SEQUENCE review_case_id START 1001;

-- What the service does not decide alone. A late capture is refunded by itself; the case stays for a person to close.
CREATE TABLE review_case (
    account_id   bigint NOT NULL,
    id           bigint NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('late_capture', 'mismatch')),
    payment_id   bigint NOT NULL,
    facts        jsonb NOT NULL,
    status       text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'refunded', 'refund_failed', 'closed')),
    due_at       timestamptz,    -- when to try the refund of a late capture
    looks        integer NOT NULL DEFAULT 0,
    lease_until  timestamptz,    -- real time
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    PRIMARY KEY (account_id, id),
    CONSTRAINT review_case_once UNIQUE (account_id, kind, payment_id)
);
COMMENT ON TABLE review_case IS 'tenant: payments that a person must look at';
CREATE INDEX review_case_due ON review_case (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX review_case_newest ON review_case (id DESC);

-- The sandbox's fixture -----------------------------------------------------------------------------------------
-- Every state under the same small ids on each of the three accounts (docs/payments.md). None of them falls due.

INSERT INTO payment
    (account_id, id, kind, channel, payment_reference, identifier, amount_minor, currency, details, ipn_url, success_url,
     cancel_url, customer_name, customer_email, metadata, status, remark, key_account_id, key_id, platform_id, fee_payer,
     application_fee_minor, started_at, processor_reference, attempts, fee_minor, refunded_minor, reserve_minor,
     proof_status, expires_at, paid_at, cancelled_at, created_at, updated_at)
SELECT account.account_id, id, 'hosted', 'api', reference, 'sample-' || id, 5000, 'GBP', 'A sample order',
       'https://example.com/ipn', 'https://example.com/paid', 'https://example.com/cancelled', 'Sam Sample',
       'sam@example.com', '{}', sample.status, remark, account.account_id, 1, account.platform_id, 'connected_account',
       CASE WHEN account.platform_id IS NOT NULL THEN 250 END,
       CASE WHEN attempts > 0 THEN timestamptz '2025-01-01T00:00:00Z' END,
       CASE WHEN attempts > 0 THEN 'sim_' || lpad(id::text, 20, '0') END,
       attempts, CASE WHEN sample.status IN ('succeeded', 'refunded') THEN 95 ELSE 0 END, refunded, reserve,
       proof_status, '2125-01-01T00:00:00Z',
       CASE WHEN sample.status IN ('succeeded', 'refunded') THEN timestamptz '2025-01-01T00:10:00Z' END,
       CASE WHEN sample.status = 'cancelled' THEN timestamptz '2025-01-02T00:00:00Z' END,
       '2025-01-01T00:00:00Z', '2025-01-02T00:00:00Z'
FROM (VALUES (1, 'PAY-0000011', 'pending', NULL, 0, 0, 0, NULL),
             (2, 'PAY-0000022', 'succeeded', NULL, 1, 0, 0, NULL),
             (3, 'PAY-0000033', 'failed', 'attempts_exhausted', 1, 0, 0, NULL),
             (4, 'PAY-0000044', 'cancelled', NULL, 0, 0, 0, NULL),
             (5, 'PAY-0000055', 'cancelled', 'checkout_expired', 0, 0, 0, NULL),
             (6, 'PAY-0000066', 'refunded', NULL, 1, 5000, 0, NULL),
             (7, 'PAY-0000077', 'succeeded', NULL, 1, 2000, 0, NULL),
             (8, 'PAY-0000088', 'succeeded', NULL, 1, 0, 4905, 'requested'),
             (9, 'PAY-0000099', 'succeeded', NULL, 1, 0, 4905, 'submitted'),
             (10, 'PAY-00000AA', 'succeeded', NULL, 1, 0, 0, 'approved'),
             (11, 'PAY-00000BB', 'succeeded', NULL, 1, 0, 4905, 'rejected'))
     AS sample (id, reference, status, remark, attempts, refunded, reserve, proof_status)
CROSS JOIN account
WHERE account.account_id IN (1, 2, 3);

INSERT INTO payment_attempt (account_id, payment_id, n, reference, status, error_code, decline_code, message, holder, at)
SELECT account_id, id, 1, 'sample', CASE WHEN status = 'failed' THEN 'failed' ELSE 'succeeded' END,
       CASE WHEN status = 'failed' THEN 'card_declined' END, CASE WHEN status = 'failed' THEN 'generic_decline' END,
       CASE WHEN status = 'failed' THEN 'The card was declined.' END, 'Sam Sample', '2025-01-01T00:10:00Z'
FROM payment
WHERE attempts > 0;

INSERT INTO payment_link
    (account_id, id, reference, amount_minor, currency, details, metadata, status, max_payments, payments, opened,
     key_account_id, key_id, created_at, updated_at)
SELECT account_id, id, reference, 2500, 'GBP', 'A sample link', '{}', status, 1, CASE status WHEN 'paid' THEN 1 ELSE 0 END,
       CASE status WHEN 'paid' THEN 1 ELSE 0 END, account_id, 1, '2025-01-01T00:00:00Z', '2025-01-02T00:00:00Z'
FROM (VALUES (1, 'LNK-000001V', 'pending'), (2, 'LNK-000002W', 'paid'), (3, 'LNK-000003X', 'cancelled'),
             (4, 'LNK-000004Y', 'expired')) AS sample (id, reference, status)
CROSS JOIN (VALUES (1), (2), (3)) AS fixture (account_id);

INSERT INTO refund
    (account_id, id, payment_id, amount_minor, currency, reason, status, failure_reason, application_fee_reversed_minor,
     created_at, updated_at)
SELECT account_id, id, payment_id, amount, 'GBP', 'A sample refund', status, failure, 0, '2025-01-02T00:00:00Z',
       '2025-01-02T00:00:00Z'
FROM (VALUES (1, 6, 5000, 'succeeded', NULL), (2, 7, 2000, 'succeeded', NULL), (3, 7, 1000, 'failed', 'processing_error'))
     AS sample (id, payment_id, amount, status, failure)
CROSS JOIN (VALUES (1), (2), (3)) AS fixture (account_id);

INSERT INTO proof_request
    (account_id, id, payment_id, status, reason, invoice_file_required, courier_company, tracking_number, merchant_notes,
     staff_notes, submitted_at, decided_at, created_at, updated_at)
SELECT account_id, id, payment_id, status, 'A sample request', false, 'Sample Post', 'SP0001', 'Sent on Monday.', notes,
       CASE WHEN status <> 'requested' THEN timestamptz '2025-01-03T00:00:00Z' END,
       CASE WHEN status IN ('approved', 'rejected') THEN timestamptz '2025-01-04T00:00:00Z' END,
       '2025-01-02T00:00:00Z', '2025-01-04T00:00:00Z'
FROM (VALUES (1, 8, 'requested', NULL), (2, 9, 'submitted', NULL), (3, 10, 'approved', 'In order.'),
             (4, 11, 'rejected', 'The invoice is cut off.')) AS sample (id, payment_id, status, notes)
CROSS JOIN (VALUES (1), (2), (3)) AS fixture (account_id);

-- What the service's role may do --------------------------------------------------------------------------------

GRANT USAGE ON SEQUENCE payment_id, payment_link_id, refund_id, proof_request_id, review_case_id TO bursar_app;
GRANT SELECT, INSERT, UPDATE ON payment, payment_link, refund, proof_request, review_case TO bursar_app;
GRANT SELECT, INSERT ON payment_attempt TO bursar_app;
