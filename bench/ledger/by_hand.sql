-- The same payment written by hand: the ledger's tables and keys, without its function, its checks and its privileges.

CREATE TABLE hand_wallet (
    account_id  bigint NOT NULL,
    currency    text NOT NULL,
    main        bigint NOT NULL DEFAULT 0,
    pending     bigint NOT NULL DEFAULT 0,
    reserve     bigint NOT NULL DEFAULT 0,
    seq         bigint NOT NULL DEFAULT 0,
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, currency)
) WITH (fillfactor = 50);
INSERT INTO hand_wallet (account_id, currency) SELECT n, 'GBP' FROM generate_series(1, 3000) AS n;

CREATE SEQUENCE hand_journal_id;
CREATE TABLE hand_journal (
    account_id  bigint NOT NULL,
    id          bigint NOT NULL,
    kind        text NOT NULL,
    ref         text NOT NULL,
    currency    text NOT NULL,
    owners      bigint[] NOT NULL,
    accounts    text[] NOT NULL,
    amounts     bigint[] NOT NULL,
    related     text NOT NULL,
    note        text NOT NULL,
    event_at    timestamptz NOT NULL,
    created_at  timestamptz NOT NULL,
    txid        bigint NOT NULL,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, kind, ref)
);
CREATE INDEX ON hand_journal (txid);

CREATE SEQUENCE hand_entry_id;
CREATE TABLE hand_entry (
    account_id      bigint NOT NULL,
    id              bigint NOT NULL,
    currency        text NOT NULL,
    seq             bigint NOT NULL,
    journal_id      bigint NOT NULL,
    kind            text NOT NULL,
    pending         bigint NOT NULL,
    balance_before  bigint NOT NULL,
    balance_after   bigint NOT NULL,
    related         text NOT NULL,
    note            text NOT NULL,
    created_at      timestamptz NOT NULL,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, currency, seq)
);

CREATE TABLE hand_unsettled (
    account_id  bigint NOT NULL,
    currency    text NOT NULL,
    source      text NOT NULL,
    amount      bigint NOT NULL,
    settles_at  timestamptz NOT NULL,
    PRIMARY KEY (account_id, currency, source)
);
CREATE INDEX ON hand_unsettled (settles_at);

GRANT SELECT, INSERT, UPDATE ON hand_wallet, hand_journal, hand_entry, hand_unsettled TO bursar_app;
GRANT USAGE ON hand_journal_id, hand_entry_id TO bursar_app;
