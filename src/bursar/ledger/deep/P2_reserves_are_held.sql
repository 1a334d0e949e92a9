-- What a payment shows as its reserve is what its journals have set aside and not yet released.
WITH held AS (
    SELECT j.account_id, j.related, sum(CASE g.account WHEN 'reserve' THEN g.amount ELSE 0 END) AS amount
    FROM journal j
    CROSS JOIN LATERAL unnest(j.accounts, j.amounts) AS g (account, amount)
    WHERE j.related LIKE 'transaction:%'
    GROUP BY j.account_id, j.related
)
SELECT format('payment %s of account %s shows a reserve of %s; its journals hold %s', p.id, p.account_id,
              p.reserve_minor, coalesce(h.amount, 0)) AS place
FROM payment p
LEFT JOIN held h ON h.account_id = p.account_id AND h.related = 'transaction:' || p.id
WHERE p.account_id > 1000 AND p.reserve_minor <> coalesce(h.amount, 0)
