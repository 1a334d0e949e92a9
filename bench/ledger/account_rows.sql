-- A ledger in the style that pgledger made known: every account is a row with its balance and version, a movement is a
-- list of transfers, each transfer locks both rows and leaves two entries with the balance before and after.

CREATE TABLE row_account (
    id       bigint PRIMARY KEY,
    balance  bigint NOT NULL DEFAULT 0,
    version  bigint NOT NULL DEFAULT 0
);
INSERT INTO row_account (id) SELECT generate_series(1, 3000);  -- where customers pay from, and fees go to
INSERT INTO row_account (id) SELECT account_id FROM wallet WHERE account_id > 1000000;
ANALYZE row_account;

CREATE TABLE row_transfer (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    from_id     bigint NOT NULL REFERENCES row_account,
    to_id       bigint NOT NULL REFERENCES row_account,
    amount      bigint NOT NULL CHECK (amount > 0),
    event_at    timestamptz NOT NULL DEFAULT now(),
    created_at  timestamptz NOT NULL DEFAULT now(),
    CHECK (from_id <> to_id)
);

CREATE TABLE row_entry (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id        bigint NOT NULL REFERENCES row_account,
    transfer_id       bigint NOT NULL REFERENCES row_transfer,
    amount            bigint NOT NULL,
    previous_balance  bigint NOT NULL,
    current_balance   bigint NOT NULL,
    account_version   bigint NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON row_entry (account_id, account_version);
CREATE INDEX ON row_entry (transfer_id);

CREATE FUNCTION row_transfers(p_from bigint[], p_to bigint[], p_amount bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    transfer  bigint;
    account   row_account;
BEGIN
    PERFORM FROM row_account WHERE id = ANY (p_from || p_to) ORDER BY id FOR UPDATE;
    FOR i IN 1 .. cardinality(p_amount) LOOP
        INSERT INTO row_transfer (from_id, to_id, amount) VALUES (p_from[i], p_to[i], p_amount[i])
        RETURNING id INTO transfer;
        UPDATE row_account SET balance = balance - p_amount[i], version = version + 1
        WHERE id = p_from[i] RETURNING * INTO account;
        INSERT INTO row_entry (account_id, transfer_id, amount, previous_balance, current_balance, account_version)
        VALUES (account.id, transfer, -p_amount[i], account.balance + p_amount[i], account.balance, account.version);
        UPDATE row_account SET balance = balance + p_amount[i], version = version + 1
        WHERE id = p_to[i] RETURNING * INTO account;
        INSERT INTO row_entry (account_id, transfer_id, amount, previous_balance, current_balance, account_version)
        VALUES (account.id, transfer, p_amount[i], account.balance - p_amount[i], account.balance, account.version);
    END LOOP;
END $$;
GRANT EXECUTE ON FUNCTION row_transfers TO bursar_app;
