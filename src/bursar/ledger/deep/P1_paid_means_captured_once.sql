-- A paid payment has exactly one journal, of its amount and its fees; any other payment has none.
WITH captured AS (
    SELECT j.account_id, j.ref, j.currency, count(DISTINCT j.id) AS journals,
           -sum(CASE g.account WHEN 'processor_clearing' THEN g.amount ELSE 0 END) AS amount,
           sum(CASE g.account WHEN 'fees' THEN g.amount ELSE 0 END) AS fees,
           sum(CASE WHEN g.owner <> j.account_id AND g.account IN ('main', 'pending') THEN g.amount ELSE 0 END) AS shared
    FROM journal j
    CROSS JOIN LATERAL unnest(j.owners, j.accounts, j.amounts) AS g (owner, account, amount)
    WHERE j.kind = 'payment'
    GROUP BY j.account_id, j.ref, j.currency
)
SELECT format('payment %s of account %s is %s: %s journals of %s, fees %s', coalesce(p.id::text, c.ref),
              coalesce(p.account_id, c.account_id), p.status, coalesce(c.journals, 0), c.amount, c.fees) AS place
FROM (SELECT * FROM payment WHERE account_id > 1000) AS p
FULL JOIN captured c ON c.account_id = p.account_id AND c.ref = p.id::text
WHERE p.id IS NULL
   OR (p.status IN ('succeeded', 'refunded')) <> (c.journals IS NOT NULL)
   OR c.journals <> 1
   OR (c.amount, c.fees, c.currency) <> (p.amount_minor, p.fee_minor, p.currency)
   OR c.shared <> CASE WHEN p.fee_payer = 'platform' THEN coalesce(p.application_fee_minor, 0) - p.fee_minor
                       ELSE coalesce(p.application_fee_minor, 0) END
