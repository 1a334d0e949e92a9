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
    currency    text NOT NULL CHECK (char_length(currency) = 3),
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
-- To find one by its number alone, which only people do: ids rise with the pages, so a hint per range is enough.
CREATE INDEX journal_number ON journal USING brin (id) WITH (pages_per_range = 32, autosummarize = on);

CREATE SEQUENCE wallet_id;

CREATE TABLE wallet (
    account_id  bigint NOT NULL,
    currency    text NOT NULL CHECK (char_length(currency) = 3),
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
    fact                boolean NOT NULL,  -- the class of its kind, as ledger_post has it from ledger_class
    main                bigint NOT NULL,   -- by how much each bucket changed
    pending             bigint NOT NULL,
    reserve             bigint NOT NULL,
    balance_before      bigint NOT NULL,  -- of available
    balance_after       bigint NOT NULL,
    related             text NOT NULL,
    note                text NOT NULL,
    created_at          timestamptz NOT NULL,
    PRIMARY KEY (account_id, id),
    CONSTRAINT wallet_entry_chain UNIQUE (account_id, currency, seq),
    CONSTRAINT wallet_entry_adds_up CHECK (
        balance_after = balance_before + main + pending AND (main <> 0 OR pending <> 0 OR reserve <> 0)
    ),
    -- A fact posts as it is; a request leaves nothing below zero.
    CONSTRAINT wallet_entry_floor CHECK (fact OR balance_after >= 0)
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
            INSERT INTO drawn AS d (account_id, currency, source, claim, reserved, amount)
            VALUES (p_account_id, p_currency, p_source, p_claim, p_reserved, taken)
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
                INSERT INTO drawn AS d (account_id, currency, source, claim, reserved, amount)
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
        INSERT INTO drawn AS d (account_id, currency, source, claim, reserved, amount)
            VALUES (p_account_id, p_currency, '', p_claim, true, p_amount - taken)
        ON CONFLICT (account_id, currency, source, claim, reserved) DO UPDATE SET amount = d.amount + excluded.amount;
    END IF;
    RETURN taken;
END $$;

-- Gives back what a claim has drawn, to the parts that are still unsettled first, and returns how much went to them;
-- the rest is main's. With p_spend all of it is. A reserve cannot give more than it holds.
CREATE FUNCTION ledger_give_back(
    p_account_id bigint, p_currency text, p_claim text, p_reserved boolean, p_spend boolean, p_amount bigint
) RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    found_amount  bigint;
    to_parts      bigint;
BEGIN
    WITH held AS (
        SELECT d.source, d.amount, u.source IS NOT NULL AND NOT p_spend AS unsettled,
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
          AND returned.unsettled
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
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO unsettled AS u (account_id, currency, source, amount, settles_at)
    SELECT n.account_id, n.currency, n.source, sum(n.amount), max(n.settles_at)
    FROM unnest(p_account_id, p_currency, p_source, p_amount, p_settles_at)
         AS n (account_id, currency, source, amount, settles_at)
    GROUP BY n.account_id, n.currency, n.source
    ON CONFLICT (account_id, currency, source) DO UPDATE SET amount = u.amount + excluded.amount;
END $$;

-- The first wallet that lines `first` to `last` would overdraw, or 0. Only what asks is judged: on available, and on
-- main where that alone is drawn on.
CREATE FUNCTION ledger_overdrawn(
    first integer, last integer, l_wallet integer[], l_op text[], l_via text[], l_kind text[], l_amount bigint[],
    main bigint[], pending bigint[]
) RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    moved       bigint[] := array_fill(0::bigint, ARRAY[cardinality(main)]);
    moved_main  bigint[] := moved;
    w           integer;
BEGIN
    FOR i IN first .. last LOOP
        w := l_wallet[i];
        IF l_op[i] IN ('credit', 'release') THEN
            moved[w] := moved[w] + l_amount[i];
            IF l_via[i] = 'main' THEN
                moved_main[w] := moved_main[w] + l_amount[i];
            END IF;
        ELSIF l_op[i] IN ('draw', 'hold') THEN
            moved[w] := moved[w] - l_amount[i];
            IF l_via[i] = 'main' THEN
                moved_main[w] := moved_main[w] - l_amount[i];
            END IF;
            IF ledger_class(l_kind[i]) = 'request' AND (
                main[w] + pending[w] + moved[w] < 0 OR (l_via[i] = 'main' AND main[w] + moved_main[w] < 0)
            ) THEN
                RETURN w;
            END IF;
        END IF;
    END LOOP;
    RETURN 0;
END $$;

-- Posting -------------------------------------------------------------------------------------------------------

-- Posts a list of journals, each all or nothing: what a request may not have is reported, its neighbours are posted.
--
-- Each line (l_…) belongs to one of the journals (j_…), in their order, and names one of the wallets (w_…), both by
-- place; or it is 'service', with one of the service's own accounts as its kind and a signed amount. The others, whose
-- amounts are positive:
--   credit   via main; new (opens a part for its source); own (the source's part if still unsettled, else main);
--            back (to wherever the journal's `related` drew from)
--   draw     via main, own, oldest or pending (see ledger_draw); opened (the part that this journal opens, then main)
--   hold     via main, own or oldest, into the reserve
--   release  out of the reserve that `related` holds: via back, to where it came from; via main, to be spent at once
--   settle   what is left of the source's part, from pending to main
-- Outcomes: posted; existing (the natural key is taken; ids has the journal); insufficient (available has what there
-- was); empty (nothing was left to settle).
CREATE FUNCTION ledger_post(
    j_account_id bigint[], j_kind text[], j_ref text[], j_currency text[], j_related text[], j_note text[],
    j_event_at timestamptz[],
    w_account_id bigint[], w_currency text[],
    l_journal integer[], l_wallet integer[], l_op text[], l_via text[], l_kind text[], l_amount bigint[],
    l_source text[], l_settles_at timestamptz[],
    OUT outcomes text[], OUT ids bigint[], OUT available bigint[]
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    moment  timestamptz;
    this_tx bigint := pg_current_xact_id()::text::bigint;
    -- Only journals with one of these kinds (those whose class is request) have to be judged.
    requests CONSTANT text[] := ARRAY['refund', 'reserve', 'payout', 'payout_fee', 'disbursement', 'collection_hold',
                                      'funding_hold'];
    -- The wallets as they stand, one element each.
    w_main    bigint[] := array_fill(0::bigint, ARRAY[cardinality(w_account_id)]);
    w_pending bigint[] := w_main;
    w_reserve bigint[] := w_main;
    w_seq     bigint[] := w_main;
    -- What each line does to its wallet's buckets, and where that leaves it; null for lines that are not posted.
    l_main    bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(l_op)]);
    l_pending bigint[] := l_main;
    l_reserve bigint[] := l_main;
    l_before  bigint[] := l_main;
    l_seq     bigint[] := l_main;
    -- The parts that this call opens, until they are written.
    o_account bigint[] := '{}'; o_currency text[] := '{}'; o_source text[] := '{}'; o_amount bigint[] := '{}';
    o_settles_at timestamptz[] := '{}';
    held    record;
    first   integer;
    last    integer := 0;
    w       integer;
    o       integer := 0;  -- how many parts are open
    opened  integer;       -- the first of them that is of this journal
    amount  bigint;
    taken   bigint;
    d_main bigint; d_pending bigint; d_reserve bigint;
    written integer;
BEGIN
    SELECT now() + i.clock_offset INTO moment FROM instance i;  -- instance_now(), without a plan of its own each time
    -- Lock the wallets, in the same order everywhere, and read them.
    FOR held IN
        SELECT t.account_id, t.currency, t.place
        FROM unnest(w_account_id, w_currency) WITH ORDINALITY AS t (account_id, currency, place)
        ORDER BY t.account_id, t.currency
    LOOP
        w := held.place;
        SELECT t.main, t.pending, t.reserve, t.seq INTO d_main, d_pending, d_reserve, taken
        FROM wallet t
        WHERE t.account_id = held.account_id AND t.currency = held.currency
        FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            INSERT INTO wallet (account_id, currency, id, created_at, updated_at)
            VALUES (held.account_id, held.currency, nextval('wallet_id'), moment, moment)
            ON CONFLICT (account_id, currency) DO NOTHING;
            SELECT t.main, t.pending, t.reserve, t.seq INTO STRICT d_main, d_pending, d_reserve, taken
            FROM wallet t
            WHERE t.account_id = held.account_id AND t.currency = held.currency
            FOR NO KEY UPDATE;
        END IF;
        w_main[w] := d_main; w_pending[w] := d_pending; w_reserve[w] := d_reserve; w_seq[w] := taken;
    END LOOP;

    -- Under the locks, so that whoever posted the same fact a moment ago is seen.
    SELECT array_agg(j.id ORDER BY k.place), array_agg(NULL::bigint), array_agg('existing'::text)
    INTO ids, available, outcomes
    FROM unnest(j_account_id, j_kind, j_ref) WITH ORDINALITY AS k (account_id, kind, ref, place)
    LEFT JOIN journal j ON j.account_id = k.account_id AND j.kind = k.kind AND j.ref = k.ref;

    FOR j IN 1 .. cardinality(j_kind) LOOP
        first := last + 1;
        WHILE l_journal[last + 1] = j LOOP
            last := last + 1;
        END LOOP;
        CONTINUE WHEN ids[j] IS NOT NULL;
        w := 0;
        IF l_kind[first:last] && requests THEN
            w := ledger_overdrawn(first, last, l_wallet, l_op, l_via, l_kind, l_amount, w_main, w_pending);
        END IF;
        IF w > 0 THEN
            outcomes[j] := 'insufficient';
            available[j] := w_main[w] + w_pending[w];
            CONTINUE;
        END IF;
        outcomes[j] := 'posted';
        ids[j] := nextval('journal_id');
        opened := o + 1;
        FOR i IN first .. last LOOP
            w := l_wallet[i];
            amount := l_amount[i];
            IF l_op[i] = 'service' AND l_kind[i] IN ('fees', 'adjustments', 'processor_clearing', 'bank_transit',
                                                     'bank', 'unallocated') THEN
                l_main[i] := amount;
                CONTINUE;
            END IF;
            IF l_op[i] = 'service' OR w_currency[w] IS DISTINCT FROM j_currency[j] OR amount < 0 THEN
                RAISE EXCEPTION 'journal % of kind % has an impossible line', j_ref[j], j_kind[j]
                    USING ERRCODE = 'invalid_parameter_value';
            END IF;
            -- The parts that this call opens are written before anything else may look for them.
            IF o > 0 AND l_via[i] NOT IN ('main', 'new', 'opened') THEN
                PERFORM ledger_open_parts(o_account, o_currency, o_source, o_amount, o_settles_at);
                o := 0;
                opened := 1;
                o_account := '{}'; o_currency := '{}'; o_source := '{}'; o_amount := '{}'; o_settles_at := '{}';
            END IF;
            d_reserve := 0;
            IF l_op[i] = 'credit' THEN
                d_pending := 0;
                IF l_via[i] = 'new' THEN
                    d_pending := amount;
                    o := o + 1;
                    o_account[o] := w_account_id[w]; o_currency[o] := w_currency[w]; o_source[o] := l_source[i];
                    o_amount[o] := amount; o_settles_at[o] := l_settles_at[i];
                ELSIF l_via[i] = 'own' THEN
                    UPDATE unsettled u SET amount = u.amount + l_amount[i]
                    WHERE u.account_id = w_account_id[w] AND u.currency = w_currency[w] AND u.source = l_source[i];
                    IF FOUND THEN
                        d_pending := amount;
                    END IF;
                ELSIF l_via[i] = 'back' THEN
                    d_pending := ledger_give_back(w_account_id[w], w_currency[w], j_related[j], false, false, amount);
                END IF;
                d_main := amount - d_pending;
            ELSIF l_op[i] IN ('draw', 'hold') THEN
                IF l_via[i] = 'opened' THEN
                    taken := 0;
                    FOR p IN opened .. o LOOP
                        IF o_source[p] = l_source[i] AND o_account[p] = w_account_id[w] THEN
                            taken := least(o_amount[p], amount);
                            o_amount[p] := o_amount[p] - taken;
                        END IF;
                    END LOOP;
                ELSE
                    taken := ledger_draw(w_account_id[w], w_currency[w], l_via[i], l_source[i], j_related[j],
                                         l_op[i] = 'hold', amount, w_main[w]);
                END IF;
                d_pending := -taken;
                d_main := taken - amount;
                IF l_op[i] = 'hold' THEN
                    d_reserve := amount;
                END IF;
            ELSIF l_op[i] = 'release' THEN
                d_pending := ledger_give_back(w_account_id[w], w_currency[w], j_related[j], true, l_via[i] = 'main',
                                              amount);
                d_main := amount - d_pending;
                d_reserve := -amount;
            ELSIF l_op[i] = 'settle' THEN
                d_main := coalesce(ledger_settle(w_account_id[w], w_currency[w], l_source[i]), 0);
                d_pending := -d_main;
                IF d_main = 0 THEN
                    outcomes[j] := 'empty';
                    ids[j] := NULL;
                    CONTINUE;
                END IF;
            ELSE
                RAISE EXCEPTION 'no such line: %', l_op[i] USING ERRCODE = 'invalid_parameter_value';
            END IF;
            l_main[i] := d_main;
            l_pending[i] := d_pending;
            l_reserve[i] := d_reserve;
            l_before[i] := w_main[w] + w_pending[w];
            l_seq[i] := w_seq[w] + 1;
            w_main[w] := w_main[w] + d_main;
            w_pending[w] := w_pending[w] + d_pending;
            w_reserve[w] := w_reserve[w] + d_reserve;
            w_seq[w] := w_seq[w] + 1;
        END LOOP;
    END LOOP;

    -- Write it all down, each table once. A journal has one leg per bucket or account, whatever its lines.
    INSERT INTO journal (account_id, id, kind, ref, currency, owners, accounts, amounts, related, note,
                         event_at, created_at, txid)
    SELECT j_account_id[g.j], ids[g.j], j_kind[g.j], j_ref[g.j], j_currency[g.j],
           array_agg(g.owner ORDER BY g.place, g.account), array_agg(g.account ORDER BY g.place, g.account),
           array_agg(g.amount ORDER BY g.place, g.account),
           j_related[g.j], j_note[g.j], coalesce(j_event_at[g.j], moment), moment, this_tx
    FROM (
        SELECT l.j, leg.owner, leg.account, sum(leg.amount)::bigint AS amount, min(l.place) AS place
        FROM unnest(l_journal, l_wallet, l_op, l_kind, l_main, l_pending, l_reserve) WITH ORDINALITY
             AS l (j, w, op, kind, main, pending, reserve, place),
             LATERAL (VALUES
                 (CASE l.op WHEN 'service' THEN j_account_id[l.j] ELSE w_account_id[l.w] END,
                  CASE l.op WHEN 'service' THEN l.kind ELSE 'main' END, l.main),
                 (w_account_id[l.w], 'pending', l.pending),
                 (w_account_id[l.w], 'reserve', l.reserve)
             ) AS leg (owner, account, amount)
        WHERE leg.amount <> 0
        GROUP BY l.j, leg.owner, leg.account
        HAVING sum(leg.amount) <> 0
    ) AS g
    GROUP BY g.j
    ON CONFLICT (account_id, kind, ref) DO NOTHING;
    GET DIAGNOSTICS written = ROW_COUNT;
    IF written <> cardinality(array_positions(outcomes, 'posted')) THEN
        RAISE EXCEPTION 'another transaction is posting the same journal' USING ERRCODE = 'serialization_failure';
    END IF;
    INSERT INTO wallet_entry (account_id, id, currency, seq, journal_account_id, journal_id, kind, fact, main, pending,
                              reserve, balance_before, balance_after, related, note, created_at)
    SELECT w_account_id[l.w], nextval('wallet_entry_id'), w_currency[l.w], l.seq, j_account_id[l.j], ids[l.j], l.kind,
           ledger_class(l.kind) = 'fact', l.main, l.pending, l.reserve, l.before, l.before + l.main + l.pending,
           j_related[l.j], j_note[l.j], moment
    FROM unnest(l_journal, l_wallet, l_kind, l_main, l_pending, l_reserve, l_before, l_seq)
         AS l (j, w, kind, main, pending, reserve, before, seq)
    WHERE l.seq IS NOT NULL;
    UPDATE wallet t
    SET main = s.main, pending = s.pending, reserve = s.reserve, seq = s.seq, updated_at = moment
    FROM unnest(w_account_id, w_currency, w_main, w_pending, w_reserve, w_seq)
         AS s (account_id, currency, main, pending, reserve, seq)
    WHERE t.account_id = s.account_id AND t.currency = s.currency AND t.seq <> s.seq;
    IF o > 0 THEN
        PERFORM ledger_open_parts(o_account, o_currency, o_source, o_amount, o_settles_at);
    END IF;
END $$;

-- Reading -------------------------------------------------------------------------------------------------------

-- The public ledger rows. What moves inside available (a settlement) is nobody's row.
CREATE VIEW wallet_transaction AS
SELECT e.account_id, e.id, 'WTX-' || e.journal_id AS txn_id, e.currency, abs(e.main + e.pending) AS amount,
       CASE
           WHEN e.reserve > 0 THEN 'hold'
           WHEN e.reserve < 0 THEN 'release'
           WHEN e.main + e.pending > 0 THEN 'credit'
           ELSE 'debit'
       END AS type,
       CASE
           -- Not final yet: a payment that has not settled, or a reserve that still holds.
           WHEN e.kind = 'payment' AND EXISTS (
               SELECT FROM unsettled u
               WHERE u.account_id = e.account_id AND u.currency = e.currency AND u.source = e.related AND u.amount > 0
           ) THEN 'pending'
           WHEN e.reserve > 0 AND EXISTS (
               SELECT FROM drawn d
               WHERE d.account_id = e.account_id AND d.currency = e.currency AND d.claim = e.related AND d.reserved
           ) THEN 'pending'
           -- Undone by a later journal, or given back.
           WHEN e.kind = 'reserve' THEN 'reversed'
           WHEN EXISTS (
               SELECT FROM journal j
               WHERE j.account_id = e.account_id AND j.kind = ledger_reversal(e.kind)
                 AND j.ref = substr(e.related, strpos(e.related, ':') + 1)
           ) THEN 'reversed'
           ELSE 'posted'
       END AS status,
       e.note AS notes, e.created_at, e.balance_before, e.balance_after,
       ledger_category(e.kind) AS category, e.related
FROM wallet_entry e
WHERE e.main + e.pending <> 0;
COMMENT ON VIEW wallet_transaction IS 'tenant: wallet entries as the public API shows them';

-- Seals ---------------------------------------------------------------------------------------------------------

-- Blocks of journals in the order of their transactions, each hashed with the head before it. The totals of the
-- service accounts are kept with each block, so that reading one never means summing everything.
CREATE TABLE seal (
    number      bigint PRIMARY KEY,
    from_txid   bigint NOT NULL,
    upto_txid   bigint NOT NULL,  -- exclusive
    ids         bigint[] NOT NULL,
    prints      bytea[] NOT NULL,  -- the first bytes of each journal's digest, to say which one differs
    digest      bytea NOT NULL,
    head        bytea NOT NULL,
    totals      jsonb NOT NULL,    -- 'currency account' → minor units, from the first journal to the end of this block
    sealed_at   timestamptz NOT NULL,
    CHECK (from_txid < upto_txid AND cardinality(ids) > 0 AND cardinality(ids) = cardinality(prints))
);
COMMENT ON TABLE seal IS 'reference: the chain of hashes over the journals';

CREATE FUNCTION journal_digest(j journal) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT sha256(convert_to(ROW(
        j.account_id, j.id, j.kind, j.ref, j.currency, j.owners, j.accounts, j.amounts, j.related, j.note,
        (extract(epoch FROM j.event_at) * 1000000)::bigint, (extract(epoch FROM j.created_at) * 1000000)::bigint, j.txid
    )::text, 'UTF8'))
$$;

CREATE FUNCTION seal_head(previous bytea, number bigint, from_txid bigint, upto_txid bigint, digest bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT sha256(previous || convert_to(number || ':' || from_txid || ':' || upto_txid || ':', 'UTF8') || digest) $$;

-- Seals the oldest journals that no seal covers, about p_largest of them, and returns how many; 0 when there are none.
-- Only journals of transactions below the snapshot's xmin: those are finished, so nothing can appear among them later.
CREATE FUNCTION ledger_seal(p_largest integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
    newest   seal;
    block    seal;
    horizon  bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('ledger_seal')) THEN
        RETURN 0;  -- another worker is at it
    END IF;
    SELECT * INTO newest FROM seal ORDER BY number DESC LIMIT 1;
    horizon := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
    block.number := coalesce(newest.number, 0) + 1;
    block.from_txid := coalesce(newest.upto_txid, 0);
    IF horizon < block.from_txid THEN
        RAISE EXCEPTION 'transaction numbers have gone back to %, below the sealed %', horizon, block.from_txid
            USING HINT = 'A database restored from a dump must first be given a higher transaction number.';
    END IF;
    SELECT max(t.txid) + 1 INTO block.upto_txid
    FROM (
        SELECT j.txid
        FROM journal j
        WHERE j.txid >= block.from_txid AND j.txid < horizon
        ORDER BY j.txid
        LIMIT p_largest
    ) AS t;
    IF block.upto_txid IS NULL THEN
        RETURN 0;
    END IF;
    SELECT array_agg(t.id ORDER BY t.txid, t.id), array_agg(substr(t.digest, 1, 8) ORDER BY t.txid, t.id),
           sha256(string_agg(t.digest, '' ORDER BY t.txid, t.id))
    INTO block.ids, block.prints, block.digest
    FROM (
        SELECT j.id, j.txid, journal_digest(j) AS digest
        FROM journal j
        WHERE j.txid >= block.from_txid AND j.txid < block.upto_txid
    ) AS t;
    SELECT coalesce(jsonb_object_agg(t.name, t.total), '{}') INTO block.totals
    FROM (
        SELECT l.name, sum(l.amount) AS total
        FROM (
            SELECT e.key AS name, e.value::bigint AS amount FROM jsonb_each_text(newest.totals) AS e
            UNION ALL
            SELECT j.currency || ' ' || g.account, g.amount
            FROM journal j, unnest(j.accounts, j.amounts) AS g (account, amount)
            WHERE j.txid >= block.from_txid AND j.txid < block.upto_txid
              AND g.account NOT IN ('main', 'pending', 'reserve')
        ) AS l
        GROUP BY l.name
    ) AS t;
    block.head := seal_head(coalesce(newest.head, ''), block.number, block.from_txid, block.upto_txid, block.digest);
    block.sealed_at := instance_now();
    INSERT INTO seal SELECT block.*;
    RETURN cardinality(block.ids);
END $$;

-- What the service's role may do --------------------------------------------------------------------------------

GRANT SELECT ON journal, wallet, wallet_entry, unsettled, drawn, seal, wallet_transaction TO bursar_app;
GRANT USAGE ON SEQUENCE wallet_adjustment_id TO bursar_app;
REVOKE ALL ON FUNCTION
    ledger_post, ledger_draw, ledger_give_back, ledger_settle, ledger_open_parts, ledger_overdrawn, ledger_seal
    FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger_post, ledger_seal TO bursar_app;
