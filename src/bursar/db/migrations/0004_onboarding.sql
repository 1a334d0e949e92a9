-- Onboarding: who stands behind an account, what they signed, their bank accounts, the checks on them, and the files
-- and messages that go with it. What an account still needs is computed from these tables, never stored.

-- Accounts ------------------------------------------------------------------------------------------------------

ALTER TABLE account
    ADD COLUMN compliance_holds text[] NOT NULL DEFAULT '{}' CHECK (compliance_holds <@ '{payments,payouts}'),
    ADD COLUMN activated_at timestamptz;
CREATE INDEX account_by_platform_created ON account (platform_id, created_at, account_id) WHERE platform_id IS NOT NULL;
CREATE INDEX account_by_platform_status ON account (platform_id, status, account_id) WHERE platform_id IS NOT NULL;

-- What a platform declared of a merchant when it connected it; the legal acceptance is part of it.
CREATE TABLE account_profile (
    account_id                   bigint PRIMARY KEY,
    firstname                    text NOT NULL,
    lastname                     text NOT NULL,
    mobile                       text NOT NULL CHECK (mobile ~ '^\+[0-9]{4,15}$'),
    business_type                text NOT NULL CHECK (business_type IN ('company', 'individual', 'sole_trader')),
    nationality                  text NOT NULL,
    company_registration_number  text,
    representative_job_title     text NOT NULL,
    rep_is_director              boolean NOT NULL,
    rep_is_executive             boolean NOT NULL,
    rep_is_owner                 boolean NOT NULL,
    rep_ownership_percent        numeric(5, 2) CHECK (rep_ownership_percent BETWEEN 25 AND 100),
    company_declaration          boolean NOT NULL,
    company_has_other_owners     boolean NOT NULL,
    address                      text NOT NULL,
    city                         text NOT NULL,
    postcode                     text NOT NULL,
    dob                          date NOT NULL,
    industry                     text NOT NULL,
    business_description         text NOT NULL,
    terms_accepted_at            timestamptz NOT NULL,
    terms_ip                     inet NOT NULL,
    legal_name                   text NOT NULL,
    signature_kind               text NOT NULL CHECK (signature_kind IN ('typed', 'image')),
    signature_upload_id          bigint NOT NULL,
    created_at                   timestamptz NOT NULL,
    updated_at                   timestamptz NOT NULL,
    CHECK (business_type <> 'company' OR company_registration_number IS NOT NULL),
    CHECK (rep_is_owner = (rep_ownership_percent IS NOT NULL))
);
COMMENT ON TABLE account_profile IS 'tenant: the business and person behind a connected account, and what they signed';

CREATE TABLE account_owner (
    account_id         bigint NOT NULL,
    position           smallint NOT NULL,
    first_name         text NOT NULL,
    last_name          text NOT NULL,
    email              text NOT NULL,
    dob                date NOT NULL,
    percent_ownership  numeric(5, 2) CHECK (percent_ownership BETWEEN 0 AND 100),
    is_owner           boolean NOT NULL,
    is_director        boolean NOT NULL,
    is_executive       boolean NOT NULL,
    PRIMARY KEY (account_id, position),
    UNIQUE (account_id, email)
);
COMMENT ON TABLE account_owner IS 'tenant: further owners, directors and executives of a connected account';

-- Uploads -------------------------------------------------------------------------------------------------------

CREATE SEQUENCE upload_id START 1001;

CREATE TABLE upload (
    account_id   bigint NOT NULL,
    id           bigint NOT NULL,
    purpose      text NOT NULL,
    subject      text NOT NULL,      -- type:id of what it belongs to
    name         text NOT NULL,
    mime         text NOT NULL CHECK (mime IN ('application/pdf', 'image/jpeg', 'image/png')),
    size         integer NOT NULL CHECK (size > 0),
    sha256       bytea NOT NULL,
    chunks       integer NOT NULL CHECK (chunks > 0),
    salt         bytea NOT NULL,     -- with the file key it makes this file's own key
    key_version  smallint NOT NULL,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (account_id, id)
);
COMMENT ON TABLE upload IS 'tenant: files that merchants sent or the service drew for them';
CREATE INDEX upload_by_subject ON upload (account_id, subject);
CREATE INDEX upload_by_id ON upload (id);

CREATE TABLE upload_chunk (
    account_id  bigint NOT NULL,
    upload_id   bigint NOT NULL,
    n           integer NOT NULL,
    data        bytea NOT NULL,      -- encrypted; its place in the file is bound in
    PRIMARY KEY (account_id, upload_id, n)
);
ALTER TABLE upload_chunk ALTER COLUMN data SET STORAGE EXTERNAL;  -- ciphertext does not compress
COMMENT ON TABLE upload_chunk IS 'tenant: the encrypted content of uploads';

-- Bank accounts -------------------------------------------------------------------------------------------------

CREATE SEQUENCE bank_account_id START 1001;

CREATE TABLE bank_account (
    account_id    bigint NOT NULL,
    id            bigint NOT NULL,
    account_name  text NOT NULL,
    bank_name     text NOT NULL,
    currency      text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    country       text NOT NULL CHECK (country ~ '^[A-Z]{2}$'),
    last4         text NOT NULL,
    use_for       text NOT NULL CHECK (use_for IN ('payout', 'supplier', 'merchant', 'employee', 'other')),
    is_default    boolean NOT NULL,
    status        text NOT NULL CHECK (status IN ('pending', 'active', 'disabled')),
    name_check    text NOT NULL CHECK (name_check IN ('matched', 'partial', 'no_match', 'not_checked')),
    full_name     text,
    email         text,
    lookup        text NOT NULL,     -- keyed hash of the numbers
    sealed        bytea NOT NULL,    -- the numbers, for the worker alone
    scenario      text,              -- test instances: what the simulated bank will do
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    PRIMARY KEY (account_id, id),
    CONSTRAINT bank_account_once UNIQUE (account_id, lookup),
    CHECK (NOT (is_default AND status = 'disabled'))
);
COMMENT ON TABLE bank_account IS 'tenant: where money may be sent; numbers are sealed';
CREATE UNIQUE INDEX bank_account_default ON bank_account (account_id, use_for, currency) WHERE is_default;
CREATE INDEX bank_account_by_id ON bank_account (id);

-- Identity ------------------------------------------------------------------------------------------------------

CREATE SEQUENCE verification_link_id START 1001;

CREATE TABLE verification_link (
    account_id          bigint NOT NULL,
    id                  bigint NOT NULL,
    purpose             text NOT NULL CHECK (purpose IN ('onboarding', 'reverification')),
    person_reference    text,
    return_url          text,
    status              text NOT NULL CHECK (status IN ('pending', 'opened', 'processing', 'requires_input', 'verified',
                                                        'rejected', 'expired', 'cancelled')),
    error_code          text,
    error_message       text,
    metadata            jsonb NOT NULL,
    document_type       text,
    document_upload_id  bigint,
    selfie_upload_id    bigint,
    simulated_outcome   text,         -- test instances: what the simulated check will find
    check_due_at        timestamptz,
    expires_at          timestamptz NOT NULL,
    submitted_at        timestamptz,
    completed_at        timestamptz,
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL,
    PRIMARY KEY (account_id, id),
    CHECK ((completed_at IS NOT NULL) = (status IN ('verified', 'rejected', 'expired', 'cancelled')))
);
COMMENT ON TABLE verification_link IS 'tenant: invitations to prove an identity on the hosted page';
CREATE INDEX verification_link_expiry ON verification_link (expires_at)
    WHERE status IN ('pending', 'opened', 'requires_input');
CREATE INDEX verification_link_check ON verification_link (check_due_at)
    WHERE status = 'processing' AND check_due_at IS NOT NULL;
CREATE INDEX verification_link_by_id ON verification_link (id);

-- Compliance ----------------------------------------------------------------------------------------------------

CREATE SEQUENCE compliance_request_id START 1001;

CREATE TABLE compliance_request (
    account_id      bigint NOT NULL,
    id              bigint NOT NULL,
    type            text NOT NULL CHECK (type IN ('document', 'information', 'ownership', 'bank', 'website',
                                                  'source_of_funds')),
    title           text NOT NULL,
    description     text NOT NULL,
    fields          jsonb NOT NULL,
    status          text NOT NULL CHECK (status IN ('open', 'submitted', 'approved', 'rejected', 'expired',
                                                    'cancelled')),
    blocking        text[] NOT NULL CHECK (blocking <@ '{payments,payouts}'),
    due_at          timestamptz NOT NULL,
    submitted_at    timestamptz,
    decided_at      timestamptz,
    decision_notes  text,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    PRIMARY KEY (account_id, id)
);
COMMENT ON TABLE compliance_request IS 'tenant: what staff ask of an account';
CREATE INDEX compliance_request_due ON compliance_request (due_at) WHERE status IN ('open', 'rejected');
CREATE INDEX compliance_request_uncleared ON compliance_request (account_id)
    WHERE status IN ('open', 'submitted', 'rejected', 'expired');
CREATE INDEX compliance_request_by_id ON compliance_request (id);

CREATE SEQUENCE compliance_response_id START 1001;

CREATE TABLE compliance_response (
    account_id  bigint NOT NULL,
    id          bigint NOT NULL,
    request_id  bigint NOT NULL,
    answers     jsonb NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (account_id, id)
);
COMMENT ON TABLE compliance_response IS 'tenant: what an account answered to a compliance request';
CREATE INDEX compliance_response_by_request ON compliance_response (account_id, request_id);

-- Support -------------------------------------------------------------------------------------------------------

CREATE SEQUENCE support_ticket_id START 1001;

CREATE TABLE support_ticket (
    account_id    bigint NOT NULL,
    id            bigint NOT NULL,
    subject       text NOT NULL,
    category      text NOT NULL CHECK (category IN ('payments', 'payouts', 'disputes', 'terminal', 'kyc', 'account',
                                                    'other')),
    priority      text NOT NULL CHECK (priority IN ('low', 'normal', 'high', 'urgent')),
    status        text NOT NULL CHECK (status IN ('open', 'waiting_merchant', 'waiting_staff', 'resolved', 'closed')),
    related_type  text,
    related_id    text,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    PRIMARY KEY (account_id, id),
    CHECK ((related_type IS NULL) = (related_id IS NULL))
);
COMMENT ON TABLE support_ticket IS 'tenant: conversations between an account and staff';
CREATE INDEX support_ticket_by_id ON support_ticket (id);

CREATE SEQUENCE support_message_id START 1001;

CREATE TABLE support_message (
    account_id  bigint NOT NULL,
    id          bigint NOT NULL,
    ticket_id   bigint NOT NULL,
    author      text NOT NULL CHECK (author IN ('merchant', 'platform', 'staff')),
    body        text NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (account_id, id)
);
COMMENT ON TABLE support_message IS 'tenant: messages of support tickets';
CREATE INDEX support_message_by_ticket ON support_message (account_id, ticket_id, id);

-- The sandbox's fixture -----------------------------------------------------------------------------------------
-- Every resource in every state, under the same small ids on each of the three accounts (docs/onboarding.md).

INSERT INTO account_profile
    (account_id, firstname, lastname, mobile, business_type, nationality, company_registration_number,
     representative_job_title, rep_is_director, rep_is_executive, rep_is_owner, rep_ownership_percent,
     company_declaration, company_has_other_owners, address, city, postcode, dob, industry, business_description,
     terms_accepted_at, terms_ip, legal_name, signature_kind, signature_upload_id, created_at, updated_at)
VALUES
    (3, 'Sandy', 'Box', '+447700900003', 'company', 'GB', '00000003', 'Director', true, false, true, 100, true, false,
     '3 Sample Street', 'London', 'EC1A 1BB', '1980-01-01', '5812', 'A sample shop', '2025-01-01T00:00:00Z',
     '192.0.2.3', 'Sandy Box', 'typed', 1, '2025-01-01T00:00:00Z', '2025-01-01T00:00:00Z');

INSERT INTO bank_account
    (account_id, id, account_name, bank_name, currency, country, last4, use_for, is_default, status, name_check,
     lookup, sealed, created_at, updated_at)
SELECT account_id, id, 'Sandbox Sample', 'Sample Bank', currency, country, last4, use_for, is_default, status,
       name_check, 'sample-' || id, '', '2025-01-01T00:00:00Z', '2025-01-01T00:00:00Z'
FROM (VALUES (1, 'GBP', 'GB', '9911', 'payout', true, 'active', 'matched'),
             (2, 'GBP', 'GB', '0004', 'payout', false, 'pending', 'no_match'),
             (3, 'EUR', 'IE', '5678', 'payout', false, 'disabled', 'partial'),
             (4, 'GBP', 'GB', '4958', 'supplier', true, 'active', 'not_checked'))
     AS sample (id, currency, country, last4, use_for, is_default, status, name_check)
CROSS JOIN (VALUES (1), (2), (3)) AS fixture (account_id);

INSERT INTO verification_link
    (account_id, id, purpose, person_reference, return_url, status, error_code, error_message, metadata, expires_at,
     submitted_at, completed_at, created_at, updated_at)
SELECT account_id, id, 'onboarding', 'sample', NULL, status, error_code, error_message, '{}', '2125-01-01T00:00:00Z',
       CASE WHEN status IN ('processing', 'requires_input', 'verified', 'rejected')
            THEN timestamptz '2025-01-02T00:00:00Z' END,
       CASE WHEN status IN ('verified', 'rejected', 'expired', 'cancelled')
            THEN timestamptz '2025-01-03T00:00:00Z' END,
       '2025-01-01T00:00:00Z', '2025-01-03T00:00:00Z'
FROM (VALUES (1, 'pending', NULL, NULL),
             (2, 'opened', NULL, NULL),
             (3, 'processing', NULL, NULL),
             (4, 'requires_input', 'document_unreadable', 'The document could not be read.'),
             (5, 'verified', NULL, NULL),
             (6, 'rejected', 'identity_rejected', 'The identity could not be confirmed.'),
             (7, 'expired', NULL, NULL),
             (8, 'cancelled', NULL, NULL))
     AS sample (id, status, error_code, error_message)
CROSS JOIN (VALUES (1), (2), (3)) AS fixture (account_id);

INSERT INTO compliance_request
    (account_id, id, type, title, description, fields, status, blocking, due_at, submitted_at, decided_at,
     decision_notes, created_at, updated_at)
SELECT account_id, id, type, 'Sample request', 'A sample of a request in this state.', fields::jsonb, status, '{}',
       '2125-01-01T00:00:00Z',
       CASE WHEN status IN ('submitted', 'approved', 'rejected') THEN timestamptz '2025-01-02T00:00:00Z' END,
       CASE WHEN status IN ('approved', 'rejected', 'cancelled') THEN timestamptz '2025-01-03T00:00:00Z' END,
       CASE WHEN status = 'rejected' THEN 'The document is cut off.' END,
       '2025-01-01T00:00:00Z', '2025-01-03T00:00:00Z'
FROM (VALUES (1, 'information', 'open', '[{"key":"website","label":"Website","type":"text","required":true}]'),
             (2, 'ownership', 'submitted', '[]'),
             (3, 'bank', 'approved', '[]'),
             (4, 'document', 'rejected', '[{"key":"proof","label":"Proof of address","type":"file","required":true}]'),
             (5, 'website', 'expired', '[]'),
             (6, 'source_of_funds', 'cancelled', '[]'))
     AS sample (id, type, status, fields)
CROSS JOIN (VALUES (1), (2), (3)) AS fixture (account_id);

INSERT INTO support_ticket
    (account_id, id, subject, category, priority, status, created_at, updated_at)
SELECT account_id, id, 'Sample ticket', category, priority, status, '2025-01-01T00:00:00Z', '2025-01-02T00:00:00Z'
FROM (VALUES (1, 'payments', 'normal', 'open'),
             (2, 'payouts', 'high', 'waiting_merchant'),
             (3, 'kyc', 'urgent', 'waiting_staff'),
             (4, 'account', 'low', 'resolved'),
             (5, 'other', 'normal', 'closed'))
     AS sample (id, category, priority, status)
CROSS JOIN (VALUES (1), (2), (3)) AS fixture (account_id);

INSERT INTO support_message (account_id, id, ticket_id, author, body, created_at)
SELECT account_id, id, id, 'merchant', 'A sample message.', '2025-01-01T00:00:00Z'
FROM generate_series(1, 5) AS sample (id)
CROSS JOIN (VALUES (1), (2), (3)) AS fixture (account_id);

-- What the service's role may do --------------------------------------------------------------------------------

GRANT USAGE ON SEQUENCE upload_id, bank_account_id, verification_link_id, compliance_request_id,
    compliance_response_id, support_ticket_id, support_message_id TO bursar_app;
GRANT SELECT ON account_profile, account_owner, upload, upload_chunk, bank_account, verification_link,
    compliance_request, compliance_response, support_ticket, support_message TO bursar_app;
GRANT INSERT, UPDATE ON account_profile, bank_account, verification_link, compliance_request, support_ticket
    TO bursar_app;
GRANT INSERT ON account_owner, upload, upload_chunk, compliance_response, support_message TO bursar_app;
