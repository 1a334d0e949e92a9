"""The peers' side as pgbench scripts: a payment of 100.00 with both fees, on a shop and a platform."""

from __future__ import annotations

from bench.ledger.wallets import HOT_PLATFORM, PLATFORMS, SHOPS

SPREAD, HOT = f"random({PLATFORMS[0]}, {PLATFORMS[-1]})", str(HOT_PLATFORM)

_WHO = rf"""
\set shop random({SHOPS[0]}, {SHOPS[-1]})
\set platform {{platform}}
\set n random(1, 9000000000000000)
"""

# The ledger's columns, as `ledger_post` fills them; each list stands here alone.
_JOURNAL = "account_id, id, kind, ref, currency, owners, accounts, amounts, related, note, event_at, created_at, txid"
_JOURNAL_VALUES = """:shop, nextval('hand_journal_id'), 'payment', :n::text, 'GBP',
            ARRAY[:shop, :shop, :platform, :shop]::bigint[],
            ARRAY['processor_clearing', 'pending', 'pending', 'fees'], ARRAY[-10000, 9330, 500, 170]::bigint[],
            'transaction:' || :n, 'PAY-0000000', now(), now(), pg_current_xact_id()::text::bigint"""
_ENTRY = """account_id, id, currency, seq, journal_account_id, journal_id, kind, fact, main, pending, reserve,
            balance_before, balance_after, related, note, created_at"""
_UNSETTLED = "account_id, currency, source, amount, settles_at"

_ONE_STATEMENT = f"""
WITH shop AS (
    UPDATE hand_wallet SET pending = pending + 9330, seq = seq + 3, updated_at = now()
    WHERE account_id = :shop AND currency = 'GBP'
    RETURNING main + pending - 9330 AS before, seq
), platform AS (
    UPDATE hand_wallet SET pending = pending + 500, seq = seq + 1, updated_at = now()
    WHERE account_id = :platform AND currency = 'GBP' AND (SELECT count(*) FROM shop) = 1
    RETURNING main + pending - 500 AS before, seq
), journal AS (
    INSERT INTO hand_journal ({_JOURNAL})
    VALUES ({_JOURNAL_VALUES})
    RETURNING id, related, note
), entries AS (
    INSERT INTO hand_wallet_entry ({_ENTRY})
    SELECT e.account_id, nextval('hand_entry_id'), 'GBP', e.seq, :shop, journal.id, e.kind, true, 0, e.moved, 0,
           e.before, e.before + e.moved, journal.related, journal.note, now()
    FROM journal, shop, platform,
         LATERAL (VALUES (:shop::bigint, shop.seq - 2, 'payment', 10000, shop.before),
                         (:shop::bigint, shop.seq - 1, 'application_fee', -500, shop.before + 10000),
                         (:platform::bigint, platform.seq, 'application_fee', 500, platform.before),
                         (:shop::bigint, shop.seq, 'processing_fee', -170, shop.before + 9500)
         ) AS e (account_id, seq, kind, moved, before)
)
INSERT INTO hand_unsettled ({_UNSETTLED})
SELECT p.account_id, 'GBP', journal.related, p.amount, now() + interval '2 days'
FROM journal, (VALUES (:shop::bigint, 9330), (:platform::bigint, 500)) AS p (account_id, amount);
"""

_STATEMENTS = rf"""
BEGIN;
UPDATE hand_wallet SET pending = pending + 9330, seq = seq + 3, updated_at = now()
WHERE account_id = :shop AND currency = 'GBP' RETURNING main + pending - 9330 AS s_before, seq AS s_seq \gset
UPDATE hand_wallet SET pending = pending + 500, seq = seq + 1, updated_at = now()
WHERE account_id = :platform AND currency = 'GBP' RETURNING main + pending - 500 AS p_before, seq AS p_seq \gset
INSERT INTO hand_journal ({_JOURNAL})
VALUES ({_JOURNAL_VALUES}) RETURNING id AS journal \gset
INSERT INTO hand_wallet_entry ({_ENTRY})
SELECT e.account_id, nextval('hand_entry_id'), 'GBP', e.seq, :shop, :journal, e.kind, true, 0, e.moved, 0, e.before,
       e.before + e.moved, 'transaction:' || :n, 'PAY-0000000', now()
FROM (VALUES (:shop::bigint, :s_seq - 2, 'payment', 10000, :s_before),
             (:shop::bigint, :s_seq - 1, 'application_fee', -500, :s_before + 10000),
             (:platform::bigint, :p_seq, 'application_fee', 500, :p_before),
             (:shop::bigint, :s_seq, 'processing_fee', -170, :s_before + 9500)
     ) AS e (account_id, seq, kind, moved, before);
INSERT INTO hand_unsettled ({_UNSETTLED})
VALUES (:shop, 'GBP', 'transaction:' || :n, 9330, now() + interval '2 days'),
       (:platform, 'GBP', 'transaction:' || :n, 500, now() + interval '2 days');
COMMIT;
"""

# The customer's side is one of 2,000 clearing accounts, so that only the platform is ever hot.
_ACCOUNT_ROWS = r"""
\set clearing random(1, 2000)
\set fees random(2001, 3000)
SELECT row_transfers(ARRAY[:clearing, :shop, :shop]::bigint[], ARRAY[:shop, :platform, :fees]::bigint[],
                     ARRAY[10000, 500, 170]::bigint[]);
"""


def by_hand(platform: str, *, one_statement: bool) -> str:
    return _WHO.format(platform=platform) + (_ONE_STATEMENT if one_statement else _STATEMENTS)


def account_rows(platform: str) -> str:
    return _WHO.format(platform=platform) + _ACCOUNT_ROWS
