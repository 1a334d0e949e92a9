-- Money captured for a payment that was closed is nobody's: a case is open for it until it is back with the customer.
WITH late AS (
    SELECT j.account_id, j.ref, sum(CASE g.account WHEN 'unallocated' THEN g.amount ELSE 0 END) AS amount
    FROM journal j
    CROSS JOIN LATERAL unnest(j.accounts, j.amounts) AS g (account, amount)
    WHERE j.kind = 'late_capture'
    GROUP BY j.account_id, j.ref
), back AS (
    SELECT j.account_id, j.ref, -sum(CASE g.account WHEN 'unallocated' THEN g.amount ELSE 0 END) AS amount
    FROM journal j
    CROSS JOIN LATERAL unnest(j.accounts, j.amounts) AS g (account, amount)
    WHERE j.kind = 'late_capture_refund'
    GROUP BY j.account_id, j.ref
)
SELECT format('payment %s of account %s is %s, its case %s: captured late %s, sent back %s',
              coalesce(late.ref, back.ref), coalesce(late.account_id, back.account_id), p.status, c.status,
              late.amount, back.amount) AS place
FROM late
FULL JOIN back ON back.account_id = late.account_id AND back.ref = late.ref
LEFT JOIN payment p ON p.account_id = late.account_id AND p.id::text = late.ref
LEFT JOIN review_case c ON c.account_id = p.account_id AND c.kind = 'late_capture' AND c.payment_id = p.id
WHERE late.ref IS NULL OR p.id IS NULL OR c.id IS NULL
   OR p.status NOT IN ('failed', 'cancelled')
   OR late.amount <> p.amount_minor
   OR back.amount <> late.amount
   OR (c.status = 'refunded') <> (back.ref IS NOT NULL)
