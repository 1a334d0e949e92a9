-- Each change of a payment, refund, reserve or link has exactly one event, and each event one change.
WITH told AS (
    SELECT e.account_id, e.type, convert_from(e.body, 'UTF8')::jsonb -> 'data' AS data
    FROM event e
    WHERE e.account_id > 1000
), counted AS (
    SELECT account_id, type,
           CASE split_part(type, '.', 1)
               WHEN 'hosted_payment' THEN data -> 'hosted_payment' ->> 'id'
               WHEN 'payment_link' THEN data -> 'payment_link' ->> 'id'
               WHEN 'balance' THEN data -> 'balance' ->> 'transaction_id'
               ELSE CASE type WHEN 'transaction.refunded' THEN data -> 'refund' ->> 'id' ELSE data -> 'transaction' ->> 'id' END
           END AS about,
           count(*) AS events
    FROM told
    WHERE split_part(type, '.', 1) IN ('transaction', 'hosted_payment', 'payment_link', 'balance')
      AND type NOT LIKE 'transaction.proof\_%' AND type <> 'transaction.failed'
    GROUP BY 1, 2, 3
), wanted AS (
    SELECT account_id, 'transaction.created' AS type, id::text AS about, 1 AS changes FROM payment
    UNION ALL
    SELECT account_id, 'transaction.succeeded', id::text, 1 FROM payment WHERE paid_at IS NOT NULL
    UNION ALL
    SELECT account_id, CASE remark WHEN 'checkout_expired' THEN 'hosted_payment.expired' ELSE 'transaction.cancelled' END,
           id::text, 1
    FROM payment
    WHERE status = 'cancelled'
    UNION ALL
    SELECT account_id, 'transaction.refunded', id::text, 1 FROM refund WHERE status = 'succeeded'
    UNION ALL
    SELECT account_id, 'payment_link.paid', id::text, payments FROM payment_link WHERE payments > 0
    UNION ALL
    SELECT account_id, CASE kind WHEN 'reserve' THEN 'balance.reserve_held' ELSE 'balance.reserve_released' END,
           split_part(related, ':', 2), count(*)
    FROM journal
    WHERE kind IN ('reserve', 'release') AND related LIKE 'transaction:%'
    GROUP BY 1, 2, 3
)
SELECT format('%s of account %s, %s: %s changes, %s events', w.type, w.account_id, w.about, w.changes,
              coalesce(c.events, 0)) AS place
FROM wanted w
LEFT JOIN counted c ON c.account_id = w.account_id AND c.type = w.type AND c.about = w.about
WHERE w.account_id > 1000 AND coalesce(c.events, 0) <> w.changes
UNION ALL
SELECT format('%s of account %s, %s: %s events of no change', c.type, c.account_id, c.about, c.events)
FROM counted c
LEFT JOIN wanted w ON w.account_id = c.account_id AND w.type = c.type AND w.about = c.about
WHERE w.about IS NULL
