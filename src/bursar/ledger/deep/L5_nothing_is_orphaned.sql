-- Every wallet entry is what its journal says, in its currency; every row belongs to a row that exists.
WITH leg AS (
    SELECT j.account_id AS home, j.id, j.currency, g.owner, sum(g.amount) AS amount
    FROM journal j
    CROSS JOIN LATERAL unnest(j.owners, j.accounts, j.amounts) AS g (owner, account, amount)
    WHERE g.account IN ('main', 'pending', 'reserve')
    GROUP BY j.account_id, j.id, j.currency, g.owner
), entry AS (
    SELECT e.journal_account_id AS home, e.journal_id AS id, e.currency, e.account_id AS owner,
           sum(e.main + e.pending + e.reserve) AS amount
    FROM wallet_entry e
    GROUP BY e.journal_account_id, e.journal_id, e.currency, e.account_id
)
SELECT format('journal %s of account %s in %s: legs of account %s are %s, its entries %s', id, home, currency, owner,
              leg.amount, entry.amount) AS place
FROM leg
FULL JOIN entry USING (home, id, currency, owner)
WHERE coalesce(leg.amount, 0) <> coalesce(entry.amount, 0) OR entry.id IS NULL OR leg.id IS NULL
UNION ALL
SELECT format('entry %s of account %s has no wallet', e.id, e.account_id)
FROM wallet_entry e
LEFT JOIN wallet w ON w.account_id = e.account_id AND w.currency = e.currency
WHERE w.account_id IS NULL
UNION ALL
SELECT format('the wallet of account %s has no account', w.account_id)
FROM wallet w
LEFT JOIN account a ON a.account_id = w.account_id
WHERE a.account_id IS NULL
UNION ALL
SELECT format('refund %s of account %s has no payment', r.id, r.account_id)
FROM refund r
LEFT JOIN payment p ON p.account_id = r.account_id AND p.id = r.payment_id
WHERE p.id IS NULL
UNION ALL
SELECT format('an attempt at payment %s of account %s has no payment', t.payment_id, t.account_id)
FROM payment_attempt t
LEFT JOIN payment p ON p.account_id = t.account_id AND p.id = t.payment_id
WHERE p.id IS NULL
UNION ALL
SELECT format('payment %s of account %s has no link %s', p.id, p.account_id, p.link_id)
FROM payment p
LEFT JOIN payment_link l ON l.account_id = p.account_id AND l.id = p.link_id
WHERE p.link_id IS NOT NULL AND l.id IS NULL
UNION ALL
SELECT format('delivery %s of account %s tells of nothing', d.id, d.account_id)
FROM delivery d
LEFT JOIN event e ON d.channel = 'webhook' AND e.account_id = d.source_account_id AND e.id = d.source_id
LEFT JOIN ipn i ON d.channel = 'ipn' AND i.account_id = d.source_account_id AND i.id = d.source_id
WHERE coalesce(e.event_id, i.event_id) IS DISTINCT FROM d.event_id
UNION ALL
SELECT format('an attempt of delivery %s of account %s has no delivery', t.delivery_id, t.account_id)
FROM delivery_attempt t
LEFT JOIN delivery d ON d.account_id = t.account_id AND d.id = t.delivery_id
WHERE d.id IS NULL
