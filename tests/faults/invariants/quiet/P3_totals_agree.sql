-- Once quiet, the processor's own statement is what our clearing account says, and it knows of nothing that we do not.
SELECT format('%s: the processor moved %s, our clearing account %s', currency, s.amount, -c.amount) AS place
FROM (SELECT currency, sum(amount_minor) AS amount FROM simulator.movement WHERE kind IN ('capture', 'refund')
      GROUP BY currency) AS s
FULL JOIN (
    SELECT j.currency, sum(g.amount) AS amount
    FROM journal j
    CROSS JOIN LATERAL unnest(j.accounts, j.amounts) AS g (account, amount)
    WHERE g.account = 'processor_clearing'
    GROUP BY j.currency
) AS c USING (currency)
WHERE coalesce(s.amount, 0) <> -coalesce(c.amount, 0)
UNION ALL
SELECT format('the processor captured %s for %s, which is %s', s.amount_minor, s.merchant_reference, p.status)
FROM simulator.payment s
LEFT JOIN payment p ON p.account_id = s.account_id AND p.payment_reference = s.merchant_reference
LEFT JOIN journal late ON late.account_id = p.account_id AND late.kind = 'late_capture' AND late.ref = p.id::text
WHERE s.state = 'succeeded' AND (p.id IS NULL OR (p.paid_at IS NULL AND late.id IS NULL))
UNION ALL
SELECT format('the processor refunded %s under %s, which we have not', s.amount_minor, s.key)
FROM simulator.refund s
LEFT JOIN refund r ON 'refund-' || r.id = s.key AND r.status = 'succeeded' AND r.amount_minor = s.amount_minor
LEFT JOIN journal back ON 'late-capture-' || back.ref = s.key AND back.kind = 'late_capture_refund'
WHERE s.refused_code IS NULL AND r.id IS NULL AND back.id IS NULL
