-- Each wallet's entries are numbered without a gap, each starts where the one before it ended, the last ends at the
-- balance, and nothing that asks for money took a wallet below zero.
WITH entry AS (
    SELECT e.*,
           row_number() OVER w AS place_in_line,
           coalesce(lag(e.balance_after) OVER w, 0) AS before,
           lead(e.seq) OVER w IS NULL AS newest
    FROM wallet_entry e
    WINDOW w AS (PARTITION BY e.account_id, e.currency ORDER BY e.seq)
)
SELECT format('wallet of account %s in %s, seq %s: %s to %s after %s', account_id, currency, seq, balance_before,
              balance_after, before) AS place
FROM entry
WHERE seq <> place_in_line
   OR balance_before <> before
   OR balance_after <> balance_before + main + pending
   OR (balance_after < 0 AND kind IN ('refund', 'reserve', 'payout', 'payout_fee', 'disbursement', 'collection_hold',
                                      'funding_hold'))
UNION ALL
SELECT format('wallet of account %s in %s is at %s, its newest entry at %s', account_id, currency, w.main + w.pending,
              coalesce(e.balance_after, 0))
FROM wallet w
LEFT JOIN (SELECT account_id, currency, seq, balance_after FROM entry WHERE newest) AS e USING (account_id, currency)
WHERE w.main + w.pending <> coalesce(e.balance_after, 0) OR w.seq <> coalesce(e.seq, 0)
   OR w.pending < 0 OR w.reserve < 0
