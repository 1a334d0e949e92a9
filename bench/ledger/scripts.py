"""The peers' side as pgbench scripts: a payment of 100.00 with both fees, on a shop and a platform.

Shops are 1 to 1000 and platforms 1001 to 2000; a hot run has platform 2001 in every payment.
"""

from __future__ import annotations

_WHO = r"""
\set shop random(1, 1000)
\set platform {platform}
\set n random(1, 9000000000000000)
"""
SPREAD, HOT = "random(1001, 2000)", "2001"

_ONE_STATEMENT = """
WITH shop AS (
    UPDATE hand_wallet SET pending = pending + 9230, seq = seq + 3, updated_at = now()
    WHERE account_id = :shop AND currency = 'GBP'
    RETURNING main + pending - 9230 AS before, seq
), platform AS (
    UPDATE hand_wallet SET pending = pending + 500, seq = seq + 1, updated_at = now()
    WHERE account_id = :platform AND currency = 'GBP' AND (SELECT count(*) FROM shop) = 1
    RETURNING main + pending - 500 AS before, seq
), journal AS (
    INSERT INTO hand_journal
    VALUES (:shop, nextval('hand_journal_id'), 'payment', :n::text, 'GBP',
            ARRAY[:shop, :shop, :platform, :shop]::bigint[],
            ARRAY['processor_clearing', 'pending', 'pending', 'fees'], ARRAY[-10000, 9230, 500, 270]::bigint[],
            'transaction:' || :n, '', now(), now(), pg_current_xact_id()::text::bigint)
    RETURNING id, related
), entries AS (
    INSERT INTO hand_entry
    SELECT e.account_id, nextval('hand_entry_id'), 'GBP', e.seq, journal.id, e.kind, e.moved, e.before,
           e.before + e.moved, journal.related, '', now()
    FROM journal, shop, platform,
         LATERAL (VALUES (:shop::bigint, shop.seq - 2, 'payment', 10000, shop.before),
                         (:shop::bigint, shop.seq - 1, 'application_fee', -500, shop.before + 10000),
                         (:platform::bigint, platform.seq, 'application_fee', 500, platform.before),
                         (:shop::bigint, shop.seq, 'processing_fee', -270, shop.before + 9500)
         ) AS e (account_id, seq, kind, moved, before)
)
INSERT INTO hand_unsettled
SELECT p.account_id, 'GBP', journal.related, p.amount, now() + interval '2 days'
FROM journal, (VALUES (:shop::bigint, 9230), (:platform::bigint, 500)) AS p (account_id, amount);
"""

_STATEMENTS = r"""
BEGIN;
UPDATE hand_wallet SET pending = pending + 9230, seq = seq + 3, updated_at = now()
WHERE account_id = :shop AND currency = 'GBP' RETURNING main + pending - 9230 AS s_before, seq AS s_seq \gset
UPDATE hand_wallet SET pending = pending + 500, seq = seq + 1, updated_at = now()
WHERE account_id = :platform AND currency = 'GBP' RETURNING main + pending - 500 AS p_before, seq AS p_seq \gset
INSERT INTO hand_journal
VALUES (:shop, nextval('hand_journal_id'), 'payment', :n::text, 'GBP', ARRAY[:shop, :shop, :platform, :shop]::bigint[],
        ARRAY['processor_clearing', 'pending', 'pending', 'fees'], ARRAY[-10000, 9230, 500, 270]::bigint[],
        'transaction:' || :n, '', now(), now(), pg_current_xact_id()::text::bigint) RETURNING id AS journal \gset
INSERT INTO hand_entry
SELECT e.account_id, nextval('hand_entry_id'), 'GBP', e.seq, :journal, e.kind, e.moved, e.before, e.before + e.moved,
       'transaction:' || :n, '', now()
FROM (VALUES (:shop::bigint, :s_seq - 2, 'payment', 10000, :s_before),
             (:shop::bigint, :s_seq - 1, 'application_fee', -500, :s_before + 10000),
             (:platform::bigint, :p_seq, 'application_fee', 500, :p_before),
             (:shop::bigint, :s_seq, 'processing_fee', -270, :s_before + 9500)
     ) AS e (account_id, seq, kind, moved, before);
INSERT INTO hand_unsettled VALUES (:shop, 'GBP', 'transaction:' || :n, 9230, now() + interval '2 days'),
                                  (:platform, 'GBP', 'transaction:' || :n, 500, now() + interval '2 days');
COMMIT;
"""

# The customer's side is one of 2,000 clearing accounts, so that only the platform is ever hot.
_ACCOUNT_ROWS = r"""
\set clearing random(3001, 5000)
\set fees random(5001, 6000)
SELECT row_transfers(ARRAY[:clearing, :shop, :shop]::bigint[], ARRAY[:shop, :platform, :fees]::bigint[],
                     ARRAY[10000, 500, 270]::bigint[]);
"""


def by_hand(platform: str, *, one_statement: bool) -> str:
    return _WHO.format(platform=platform) + (_ONE_STATEMENT if one_statement else _STATEMENTS)


def account_rows(platform: str) -> str:
    return _WHO.format(platform=platform) + _ACCOUNT_ROWS
