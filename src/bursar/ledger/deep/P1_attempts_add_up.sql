-- A payment's attempts are numbered without a gap, one of them succeeded if and only if money was captured for it.
SELECT format('payment %s of account %s is %s after %s attempts, %s of which succeeded', p.id, p.account_id, p.status,
              coalesce(t.made, 0), coalesce(t.succeeded, 0)) AS place
FROM payment p
LEFT JOIN (
    SELECT account_id, payment_id, count(*) AS made, max(n) AS newest,
           count(*) FILTER (WHERE status = 'succeeded') AS succeeded
    FROM payment_attempt
    GROUP BY account_id, payment_id
) AS t ON t.account_id = p.account_id AND t.payment_id = p.id
LEFT JOIN journal late ON late.account_id = p.account_id AND late.kind = 'late_capture' AND late.ref = p.id::text
WHERE p.account_id > 1000
  AND (coalesce(t.made, 0) <> p.attempts OR coalesce(t.newest, 0) <> p.attempts
       OR coalesce(t.succeeded, 0) <> (p.paid_at IS NOT NULL OR late.id IS NOT NULL)::integer)
