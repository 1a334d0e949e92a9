-- Outcomes of payments: what they write comes as arrays of rows like those of 0011, and wallets are locked late.

CREATE TYPE new_payment_attempt AS (
    account_id    bigint,
    payment_id    bigint,
    n             integer,
    reference     text,
    status        text,
    error_code    text,
    decline_code  text,
    message       text,
    holder        text,
    last4         text,
    at            timestamptz
);

CREATE TYPE new_ipn AS (
    account_id      bigint,
    event_id        text,
    type            text,
    url             text,
    fields          jsonb,
    amount          text,
    identifier      text,
    key_account_id  bigint,
    key_id          bigint,
    created_at      timestamptz
);

-- What an outcome may change of a payment.
CREATE TYPE payment_outcome AS (
    account_id           bigint,
    id                   bigint,
    status               text,
    processor_reference  text,
    started_at           timestamptz,
    attempts             integer,
    fee_minor            bigint,
    paid_at              timestamptz,
    closing              text,
    due_at               timestamptz
);

-- Posting -------------------------------------------------------------------------------------------------------
-- A wallet that many post to is waited for from the moment it is locked until the commit, flush and all. So it is locked
-- as late as can be.

-- Locks the wallets, in the same order everywhere, and reads them; those that are missing are made.
CREATE FUNCTION ledger_lock(
    p_account_id bigint[], p_currency text[], p_moment timestamptz,
    OUT main bigint[], OUT pending bigint[], OUT reserve bigint[], OUT seq bigint[]
)
LANGUAGE plpgsql
AS $$
DECLARE
    held      record;
    now_main bigint; now_pending bigint; now_reserve bigint; now_seq bigint;
BEGIN
    main := array_fill(0::bigint, ARRAY[cardinality(p_account_id)]);
    pending := main;
    reserve := main;
    seq := main;
    FOR held IN
        SELECT t.account_id, t.currency, t.place
        FROM unnest(p_account_id, p_currency) WITH ORDINALITY AS t (account_id, currency, place)
        ORDER BY t.account_id, t.currency
    LOOP
        SELECT t.main, t.pending, t.reserve, t.seq INTO now_main, now_pending, now_reserve, now_seq
        FROM wallet t
        WHERE t.account_id = held.account_id AND t.currency = held.currency
        FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            INSERT INTO wallet (account_id, currency, id, created_at, updated_at)
            VALUES (held.account_id, held.currency, nextval('wallet_id'), p_moment, p_moment)
            ON CONFLICT (account_id, currency) DO NOTHING;
            SELECT t.main, t.pending, t.reserve, t.seq INTO STRICT now_main, now_pending, now_reserve, now_seq
            FROM wallet t
            WHERE t.account_id = held.account_id AND t.currency = held.currency
            FOR NO KEY UPDATE;
        END IF;
        main[held.place] := now_main;
        pending[held.place] := now_pending;
        reserve[held.place] := now_reserve;
        seq[held.place] := now_seq;
    END LOOP;
END $$;

-- As before, but for the order of what it writes.
CREATE OR REPLACE FUNCTION ledger_post(
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
    -- The wallets as these lines leave them, one element each: from where they stand, or, where that decides nothing,
    -- from zero, and b_… is what they stood at when they were locked.
    w_main    bigint[] := array_fill(0::bigint, ARRAY[cardinality(w_account_id)]);
    w_pending bigint[] := w_main;
    w_reserve bigint[] := w_main;
    w_seq     bigint[] := w_main;
    b_main    bigint[] := w_main;
    b_pending bigint[] := w_main;
    b_reserve bigint[] := w_main;
    b_seq     bigint[] := w_main;
    -- What each line does to its wallet's buckets, and where that leaves it; null for lines that are not posted.
    l_main    bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(l_op)]);
    l_pending bigint[] := l_main;
    l_reserve bigint[] := l_main;
    l_before  bigint[] := l_main;
    l_seq     bigint[] := l_main;
    -- The parts that this call opens, until they are written.
    o_account bigint[] := '{}'; o_currency text[] := '{}'; o_source text[] := '{}'; o_amount bigint[] := '{}';
    o_settles_at timestamptz[] := '{}';
    -- Facts that draw on nothing but what they bring: what stands in the wallets decides nothing of them. So all but the
    -- entries is written before the wallets are locked, which others wait for.
    blind   CONSTANT boolean NOT NULL := l_via <@ ARRAY['', 'main', 'new', 'opened']
                                         AND l_op <@ ARRAY['service', 'credit', 'draw'] AND NOT l_kind && requests;
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
    IF NOT blind THEN
        SELECT * INTO w_main, w_pending, w_reserve, w_seq FROM ledger_lock(w_account_id, w_currency, moment);
    END IF;

    -- Under the locks, if there are any: whoever posted the same fact a moment ago is seen, and not met below.
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
    ORDER BY j_account_id[g.j], j_kind[g.j], j_ref[g.j]  -- so that two of these never wait for each other
    ON CONFLICT (account_id, kind, ref) DO NOTHING;
    GET DIAGNOSTICS written = ROW_COUNT;
    IF written <> cardinality(array_positions(outcomes, 'posted')) THEN
        RAISE EXCEPTION 'another transaction is posting the same journal' USING ERRCODE = 'serialization_failure';
    END IF;
    IF o > 0 THEN
        PERFORM ledger_open_parts(o_account, o_currency, o_source, o_amount, o_settles_at);
    END IF;
    IF blind THEN
        SELECT * INTO b_main, b_pending, b_reserve, b_seq FROM ledger_lock(w_account_id, w_currency, moment);
    END IF;
    INSERT INTO wallet_entry (account_id, id, currency, seq, journal_account_id, journal_id, kind, fact, main, pending,
                              reserve, balance_before, balance_after, related, note, created_at)
    SELECT w_account_id[l.w], nextval('wallet_entry_id'), w_currency[l.w], b_seq[l.w] + l.seq, j_account_id[l.j],
           ids[l.j], l.kind, ledger_class(l.kind) = 'fact', l.main, l.pending, l.reserve,
           b_main[l.w] + b_pending[l.w] + l.before, b_main[l.w] + b_pending[l.w] + l.before + l.main + l.pending,
           j_related[l.j], j_note[l.j], moment
    FROM unnest(l_journal, l_wallet, l_kind, l_main, l_pending, l_reserve, l_before, l_seq)
         AS l (j, w, kind, main, pending, reserve, before, seq)
    WHERE l.seq IS NOT NULL;
    UPDATE wallet t
    SET main = s.b_main + s.main, pending = s.b_pending + s.pending, reserve = s.b_reserve + s.reserve, seq = s.b_seq + s.seq,
        updated_at = moment
    FROM unnest(w_account_id, w_currency, w_main, w_pending, w_reserve, w_seq, b_main, b_pending, b_reserve, b_seq)
         AS s (account_id, currency, main, pending, reserve, seq, b_main, b_pending, b_reserve, b_seq)
    WHERE t.account_id = s.account_id AND t.currency = s.currency AND t.seq <> s.b_seq + s.seq;
END $$;

REVOKE ALL ON FUNCTION ledger_lock FROM PUBLIC;
