-- What was told of a payment, in order, is a way that payments may take: created first and once, paid once at the most,
-- closed or paid but not both, refunds only of what was paid; and it ends where the payment stands.
WITH told AS (
    SELECT e.account_id, e.id, e.type,
           coalesce(told.data -> 'transaction' ->> 'id', told.data -> 'hosted_payment' ->> 'id')::bigint AS payment_id
    FROM event e
    CROSS JOIN LATERAL (SELECT convert_from(e.body, 'UTF8')::jsonb -> 'data') AS told (data)
    WHERE e.account_id > 1000 AND (e.type LIKE 'transaction.%' OR e.type = 'hosted_payment.expired')
), history AS (
    SELECT account_id, payment_id,
           string_agg(CASE
               WHEN type = 'transaction.created' THEN 'c'
               WHEN type = 'transaction.failed' THEN 'f'
               WHEN type = 'transaction.succeeded' THEN 's'
               WHEN type = 'transaction.cancelled' THEN 'x'
               WHEN type = 'hosted_payment.expired' THEN 'x'
               WHEN type = 'transaction.refunded' THEN 'r'
               WHEN type LIKE 'transaction.proof\_%' THEN 'p'
               ELSE '?'
           END, '' ORDER BY id) AS way
    FROM told
    GROUP BY account_id, payment_id
)
SELECT format('payment %s of account %s is %s after %s', coalesce(p.id, h.payment_id),
              coalesce(p.account_id, h.account_id), p.status, h.way) AS place
FROM (SELECT * FROM payment WHERE account_id > 1000) AS p
FULL JOIN history h ON h.account_id = p.account_id AND h.payment_id = p.id
WHERE p.id IS NULL OR h.way IS NULL
   OR h.way !~ CASE p.status
          WHEN 'pending' THEN '^cf*$'
          WHEN 'failed' THEN '^cf*$'
          WHEN 'cancelled' THEN '^cf*x$'
          WHEN 'succeeded' THEN '^cf*s[rp]*$'
          WHEN 'refunded' THEN '^cf*s[rp]*r[rp]*$'
      END
