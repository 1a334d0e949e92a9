-- The ledger: journals, wallets and their entries, what is still unsettled, and the seals over it all.
--
-- Nothing here is written by hand. `ledger_post` is the one way in: the service's role may execute it and read these
-- tables, and may not insert, update, delete or truncate. The rules are CHECKs, unique keys and privileges; there
-- are no triggers and no foreign keys, so every table can be distributed by account_id.

-- Rules ---------------------------------------------------------------------------------------------------------

-- Whether a wallet entry of this kind asks (and is refused below zero) or records what has already happened.
-- `ledger/kinds.py` is the same table for Python; a test holds the two together.
CREATE FUNCTION ledger_class(kind text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN kind IN ('refund', 'reserve', 'payout', 'payout_fee', 'disbursement', 'collection_hold', 'funding_hold')
            THEN 'request'
        WHEN kind IN ('payment', 'processing_fee', 'application_fee', 'application_fee_reversal', 'settlement',
                      'refund_failed', 'release', 'payout_return', 'payout_fee_return', 'disbursement_return',
                      'dispute', 'dispute_fee', 'dispute_won', 'adjustment',
                      'collection_release', 'collection', 'funding_release', 'funding')
            THEN 'fact'
    END
$$;

-- What an entry of this kind is called on the public ledger row.
CREATE FUNCTION ledger_category(kind text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN kind = 'payment' THEN 'payment'
        WHEN kind IN ('processing_fee', 'payout_fee', 'payout_fee_return', 'dispute_fee') THEN 'fee'
        WHEN kind IN ('application_fee', 'application_fee_reversal') THEN 'application_fee'
        WHEN kind IN ('refund', 'refund_failed') THEN 'refund'
        WHEN kind IN ('reserve', 'release') THEN 'reserve'
        WHEN kind IN ('payout', 'payout_return', 'disbursement', 'disbursement_return') THEN 'payout'
        WHEN kind IN ('dispute', 'dispute_won') THEN 'dispute'
        WHEN kind IN ('collection_hold', 'collection_release', 'collection') THEN 'collection'
        WHEN kind IN ('funding_hold', 'funding_release', 'funding') THEN 'funding'
        WHEN kind IN ('adjustment', 'settlement') THEN kind
    END
$$;

-- The journal kind that undoes an entry of this kind, under the same reference.
CREATE FUNCTION ledger_reversal(kind text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE kind
        WHEN 'payout' THEN 'payout_return'
        WHEN 'disbursement' THEN 'disbursement_return'
        WHEN 'refund' THEN 'refund_failed'
        WHEN 'dispute' THEN 'dispute_won'
        WHEN 'collection_hold' THEN 'collection_void'
        WHEN 'funding_hold' THEN 'funding_void'
    END
$$;

-- At least two legs, none of them nothing, and zero in all.
CREATE FUNCTION ledger_balanced(amounts bigint[]) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    total   numeric := 0;
    amount  bigint;
BEGIN
    FOREACH amount IN ARRAY amounts LOOP
        IF amount = 0 OR amount IS NULL THEN
            RETURN false;
        END IF;
        total := total + amount;
    END LOOP;
    RETURN total = 0 AND cardinality(amounts) >= 2;
END $$;

-- Tables --------------------------------------------------------------------------------------------------------

CREATE SEQUENCE journal_id;

CREATE TABLE journal (
    account_id  bigint NOT NULL,
    id          bigint NOT NULL,
    kind        text NOT NULL,
    ref         text NOT NULL,      -- the business object's id: with account and kind, the natural key
    currency    text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    owners      bigint[] NOT NULL,  -- whose wallet each leg is in; of a service account's leg, the journal's account
    accounts    text[] NOT NULL,    -- main, pending, reserve, or a service account
    amounts     bigint[] NOT NULL,  -- minor units; positive is a credit
    related     text NOT NULL,      -- type:id of the business object, as the public rows show it
    note        text NOT NULL,
    event_at    timestamptz NOT NULL,  -- when it happened
    created_at  timestamptz NOT NULL,  -- when it was recorded
    txid        bigint NOT NULL,       -- the transaction that wrote it: the order in which journals are sealed
    PRIMARY KEY (account_id, id),
    CONSTRAINT journal_natural_key UNIQUE (account_id, kind, ref),
    CONSTRAINT journal_balances CHECK (ledger_balanced(amounts)),
    CONSTRAINT journal_legs_are_whole CHECK (
        cardinality(owners) = cardinality(amounts) AND cardinality(accounts) = cardinality(amounts)
    )
);
COMMENT ON TABLE journal IS 'tenant: every movement of money, balanced, for ever';
CREATE INDEX journal_txid ON journal (txid);

CREATE SEQUENCE wallet_id;

CREATE TABLE wallet (
    account_id  bigint NOT NULL,
    currency    text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    id          bigint NOT NULL,
    main        bigint NOT NULL DEFAULT 0,  -- settled
    pending     bigint NOT NULL DEFAULT 0 CONSTRAINT wallet_pending_floor CHECK (pending >= 0),  -- settles later
    reserve     bigint NOT NULL DEFAULT 0 CONSTRAINT wallet_reserve_floor CHECK (reserve >= 0),  -- held aside
    seq         bigint NOT NULL DEFAULT 0,  -- of its newest entry
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (account_id, currency)
) WITH (fillfactor = 50);
COMMENT ON TABLE wallet IS 'tenant: one balance per account and currency; available is main + pending';

CREATE SEQUENCE wallet_entry_id;

CREATE TABLE wallet_entry (
    account_id          bigint NOT NULL,
    id                  bigint NOT NULL,
    currency            text NOT NULL,
    seq                 bigint NOT NULL,
    journal_account_id  bigint NOT NULL,
    journal_id          bigint NOT NULL,
    kind                text NOT NULL,
    main                bigint NOT NULL,  -- by how much each bucket changed
    pending             bigint NOT NULL,
    reserve             bigint NOT NULL,
    balance_before      bigint NOT NULL,  -- of available
    balance_after       bigint NOT NULL,
    related             text NOT NULL,
    note                text NOT NULL,
    created_at          timestamptz NOT NULL,
    PRIMARY KEY (account_id, id),
    CONSTRAINT wallet_entry_chain UNIQUE (account_id, currency, seq),
    CONSTRAINT wallet_entry_kind CHECK (ledger_class(kind) IS NOT NULL),
    CONSTRAINT wallet_entry_floor CHECK (balance_after >= 0 OR ledger_class(kind) = 'fact'),
    CONSTRAINT wallet_entry_adds_up CHECK (balance_after = balance_before + main + pending),
    CONSTRAINT wallet_entry_moves CHECK (main <> 0 OR pending <> 0 OR reserve <> 0)
);
COMMENT ON TABLE wallet_entry IS 'tenant: what each journal did to a wallet, chained by seq';

-- What of each source (a payment, as a rule) has not settled yet. A wallet's pending is the sum of its parts.
CREATE TABLE unsettled (
    account_id  bigint NOT NULL,
    currency    text NOT NULL,
    source      text NOT NULL,  -- type:id
    amount      bigint NOT NULL CONSTRAINT unsettled_floor CHECK (amount >= 0),
    settles_at  timestamptz NOT NULL,
    PRIMARY KEY (account_id, currency, source)
) WITH (fillfactor = 80);
COMMENT ON TABLE unsettled IS 'tenant: the parts of a wallet that settle later, gone once they have';
CREATE INDEX unsettled_due ON unsettled (settles_at);

-- What a claim (a reserve, payout, dispute …) has drawn from which part, so that it can go back to where it came from.
-- Reserved: the money lies in the wallet's reserve, which is the sum of these rows. Otherwise it has left the wallet.
CREATE TABLE drawn (
    account_id  bigint NOT NULL,
    currency    text NOT NULL,
    source      text NOT NULL,  -- the part, or '' for main
    claim       text NOT NULL,
    reserved    boolean NOT NULL,
    amount      bigint NOT NULL CONSTRAINT drawn_floor CHECK (amount >= 0),
    PRIMARY KEY (account_id, currency, source, claim, reserved)
);
COMMENT ON TABLE drawn IS 'tenant: where held or withdrawn money came from, while it may still go back';
CREATE INDEX drawn_by_claim ON drawn (account_id, currency, claim);

CREATE SEQUENCE wallet_adjustment_id;

-- The helpers of ledger_post. They run with its rights and only under the lock of the wallet concerned ------------

-- Draws an amount by a policy and returns how much of it came from unsettled parts; the rest is main's to give.
--   main     nothing but main
--   own      the source's own part first
--   oldest   main first (p_main is what it has), then the parts that settle soonest
--   pending  the parts that settle soonest first
CREATE FUNCTION ledger_draw(
    p_account_id bigint, p_currency text, p_via text, p_source text, p_claim text, p_reserved boolean,
    p_amount bigint, p_main bigint
) RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    wanted  bigint := p_amount;
    taken   bigint := 0;
BEGIN
    IF p_via = 'own' THEN
        SELECT least(u.amount, wanted) INTO taken
        FROM unsettled u
        WHERE u.account_id = p_account_id AND u.currency = p_currency AND u.source = p_source;
        taken := coalesce(taken, 0);
        IF taken > 0 THEN
            UPDATE unsettled u SET amount = u.amount - taken
            WHERE u.account_id = p_account_id AND u.currency = p_currency AND u.source = p_source;
            INSERT INTO drawn AS d VALUES (p_account_id, p_currency, p_source, p_claim, p_reserved, taken)
            ON CONFLICT (account_id, currency, source, claim, reserved)
            DO UPDATE SET amount = d.amount + excluded.amount;
        END IF;
    ELSIF p_via IN ('oldest', 'pending') THEN
        IF p_via = 'oldest' THEN
            wanted := p_amount - greatest(least(p_main, p_amount), 0);
        END IF;
        IF wanted > 0 THEN
            WITH part AS (
                SELECT u.source, u.amount,
                       (sum(u.amount) OVER (ORDER BY u.settles_at, u.source))::bigint - u.amount AS before
                FROM unsettled u
                WHERE u.account_id = p_account_id AND u.currency = p_currency AND u.amount > 0
            ), given AS (
                UPDATE unsettled u SET amount = u.amount - least(part.amount, wanted - part.before)
                FROM part
                WHERE part.before < wanted
                  AND u.account_id = p_account_id AND u.currency = p_currency AND u.source = part.source
                RETURNING part.source, least(part.amount, wanted - part.before) AS amount
            ), noted AS (
                INSERT INTO drawn AS d
                SELECT p_account_id, p_currency, given.source, p_claim, p_reserved, given.amount FROM given
                ON CONFLICT (account_id, currency, source, claim, reserved)
                DO UPDATE SET amount = d.amount + excluded.amount
            )
            SELECT coalesce(sum(given.amount), 0) INTO taken FROM given;
        END IF;
    ELSIF p_via <> 'main' THEN
        RAISE EXCEPTION 'no such way to draw: %', p_via USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF p_reserved AND taken < p_amount THEN
        INSERT INTO drawn AS d VALUES (p_account_id, p_currency, '', p_claim, true, p_amount - taken)
        ON CONFLICT (account_id, currency, source, claim, reserved) DO UPDATE SET amount = d.amount + excluded.amount;
    END IF;
    RETURN taken;
END $$;

-- Gives back what a claim has drawn, to the parts that are still unsettled first, and returns how much went to them;
-- the rest is main's. A reserve cannot give more than it holds.
CREATE FUNCTION ledger_give_back(
    p_account_id bigint, p_currency text, p_claim text, p_reserved boolean, p_amount bigint
) RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    found_amount  bigint;
    to_parts      bigint;
BEGIN
    WITH held AS (
        SELECT d.source, d.amount, u.source IS NOT NULL AS unsettled,
               (sum(d.amount) OVER (ORDER BY u.source IS NULL, d.source))::bigint - d.amount AS before
        FROM drawn d
        LEFT JOIN unsettled u
            ON u.account_id = d.account_id AND u.currency = d.currency AND u.source = d.source
        WHERE d.account_id = p_account_id AND d.currency = p_currency
          AND d.claim = p_claim AND d.reserved = p_reserved
    ), returned AS (
        UPDATE drawn d SET amount = d.amount - least(held.amount, p_amount - held.before)
        FROM held
        WHERE held.before < p_amount
          AND d.account_id = p_account_id AND d.currency = p_currency AND d.source = held.source
          AND d.claim = p_claim AND d.reserved = p_reserved
        RETURNING held.source, held.unsettled, least(held.amount, p_amount - held.before) AS amount
    ), refilled AS (
        UPDATE unsettled u SET amount = u.amount + returned.amount
        FROM returned
        WHERE u.account_id = p_account_id AND u.currency = p_currency AND u.source = returned.source
    )
    SELECT coalesce(sum(r.amount), 0), coalesce(sum(r.amount) FILTER (WHERE r.unsettled), 0)
    INTO found_amount, to_parts
    FROM returned r;
    IF p_reserved AND found_amount < p_amount THEN
        RAISE EXCEPTION 'the reserve for % holds only % of %', p_claim, found_amount, p_amount
            USING ERRCODE = 'check_violation', CONSTRAINT = 'drawn_floor';
    END IF;
    DELETE FROM drawn d
    WHERE d.account_id = p_account_id AND d.currency = p_currency AND d.claim = p_claim AND d.amount = 0;
    RETURN to_parts;
END $$;

-- Closes a source's part and returns what was left of it; null when there is no such part.
CREATE FUNCTION ledger_settle(p_account_id bigint, p_currency text, p_source text) RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    remaining  bigint;
BEGIN
    DELETE FROM unsettled u
    WHERE u.account_id = p_account_id AND u.currency = p_currency AND u.source = p_source
    RETURNING u.amount INTO remaining;
    -- Whatever still comes back of it goes to main from now on. A reserve's row stays: it is what the reserve holds.
    DELETE FROM drawn d
    WHERE d.account_id = p_account_id AND d.currency = p_currency AND d.source = p_source AND NOT d.reserved;
    RETURN remaining;
END $$;

-- Adds newly opened parts; a source that already has one gets more.
CREATE FUNCTION ledger_open_parts(
    p_account_id bigint[], p_currency text[], p_source text[], p_amount bigint[], p_settles_at timestamptz[]
) RETURNS void
LANGUAGE sql
AS $$
    INSERT INTO unsettled AS u (account_id, currency, source, amount, settles_at)
    SELECT n.account_id, n.currency, n.source, sum(n.amount), max(n.settles_at)
    FROM unnest(p_account_id, p_currency, p_source, p_amount, p_settles_at)
         AS n (account_id, currency, source, amount, settles_at)
    GROUP BY n.account_id, n.currency, n.source
    ON CONFLICT (account_id, currency, source) DO UPDATE SET amount = u.amount + excluded.amount
$$;
