-- Refunds never exceed what was captured; each was taken from a wallet once, and given back once if and only if it
-- failed; the payment shows their sums.
WITH moved AS (
    SELECT j.account_id, j.ref, j.kind, count(DISTINCT j.id) AS journals,
           sum(CASE g.account WHEN 'processor_clearing' THEN g.amount ELSE 0 END) AS amount
    FROM journal j
    CROSS JOIN LATERAL unnest(j.accounts, j.amounts) AS g (account, amount)
    WHERE j.kind IN ('refund', 'refund_failed')
    GROUP BY j.account_id, j.ref, j.kind
)
SELECT format('refund %s of account %s is %s: taken %s, given back %s', r.id, r.account_id, r.status, taken.amount,
              given.amount) AS place
FROM refund r
LEFT JOIN moved taken ON taken.account_id = r.account_id AND taken.ref = r.id::text AND taken.kind = 'refund'
LEFT JOIN moved given ON given.account_id = r.account_id AND given.ref = r.id::text AND given.kind = 'refund_failed'
WHERE r.account_id > 1000
  AND (taken.amount IS DISTINCT FROM r.amount_minor OR taken.journals <> 1
       OR coalesce(given.amount, 0) <> CASE r.status WHEN 'failed' THEN -r.amount_minor ELSE 0 END)
UNION ALL
SELECT format('a %s journal of account %s is for no refund: %s', m.kind, m.account_id, m.ref)
FROM moved m
LEFT JOIN refund r ON r.account_id = m.account_id AND r.id::text = m.ref
WHERE r.id IS NULL
UNION ALL
SELECT format('payment %s of account %s: %s of %s refunded, %s on the way; its refunds say %s and %s', p.id,
              p.account_id, p.refunded_minor, p.amount_minor, p.refunding_minor, coalesce(s.done, 0), coalesce(s.going, 0))
FROM payment p
LEFT JOIN (
    SELECT account_id, payment_id,
           sum(amount_minor) FILTER (WHERE status = 'succeeded') AS done,
           sum(amount_minor) FILTER (WHERE status = 'pending') AS going,
           sum(application_fee_reversed_minor) FILTER (WHERE status <> 'failed') AS fee
    FROM refund
    GROUP BY account_id, payment_id
) AS s ON s.account_id = p.account_id AND s.payment_id = p.id
WHERE p.account_id > 1000
  AND (p.refunded_minor <> coalesce(s.done, 0) OR p.refunding_minor <> coalesce(s.going, 0)
       OR p.application_fee_back_minor <> coalesce(s.fee, 0)
       OR coalesce(s.done, 0) + coalesce(s.going, 0) > CASE WHEN p.paid_at IS NULL THEN 0 ELSE p.amount_minor END)
