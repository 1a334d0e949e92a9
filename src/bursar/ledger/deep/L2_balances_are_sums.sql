-- Every bucket of every wallet is the sum of the journals' legs, to the unit; what is held is the sum of open holds.
WITH leg AS (
    SELECT g.owner AS account_id, j.currency,
           sum(CASE g.account WHEN 'main' THEN g.amount ELSE 0 END) AS main,
           sum(CASE g.account WHEN 'pending' THEN g.amount ELSE 0 END) AS pending,
           sum(CASE g.account WHEN 'reserve' THEN g.amount ELSE 0 END) AS reserve
    FROM journal j
    CROSS JOIN LATERAL unnest(j.owners, j.accounts, j.amounts) AS g (owner, account, amount)
    WHERE g.account IN ('main', 'pending', 'reserve')
    GROUP BY g.owner, j.currency
), open_part AS (
    SELECT account_id, currency, sum(amount) AS amount FROM unsettled GROUP BY account_id, currency
), open_hold AS (
    SELECT account_id, currency, sum(amount) AS amount FROM drawn WHERE reserved GROUP BY account_id, currency
)
SELECT format('wallet of account %s in %s: main %s of %s, pending %s of %s (parts %s), reserve %s of %s (holds %s)',
              account_id, currency, w.main, leg.main, w.pending, leg.pending, open_part.amount,
              w.reserve, leg.reserve, open_hold.amount) AS place
FROM wallet w
FULL JOIN leg USING (account_id, currency)
FULL JOIN open_part USING (account_id, currency)
FULL JOIN open_hold USING (account_id, currency)
WHERE coalesce(w.main, 0) <> coalesce(leg.main, 0)
   OR coalesce(w.pending, 0) <> coalesce(leg.pending, 0)
   OR coalesce(w.reserve, 0) <> coalesce(leg.reserve, 0)
   OR coalesce(w.pending, 0) <> coalesce(open_part.amount, 0)
   OR coalesce(w.reserve, 0) <> coalesce(open_hold.amount, 0)
