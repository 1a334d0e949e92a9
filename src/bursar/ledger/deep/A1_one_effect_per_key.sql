-- No idempotency key had more than one effect while it was kept.
WITH made AS (
    SELECT e.account_id, e.created_at, convert_from(e.body, 'UTF8')::jsonb -> 'request' ->> 'idempotency_key' AS key
    FROM event e
    WHERE e.type = 'transaction.created' AND e.account_id > 1000
)
SELECT format('key %s of account %s made %s payments', key, account_id, count(*)) AS place
FROM made
WHERE key IS NOT NULL
GROUP BY account_id, key
HAVING count(*) > 1 AND max(created_at) - min(created_at) < interval '24 hours'
UNION ALL
SELECT format('key %s of account %s made %s refunds', o.key, o.owner_id, count(*))
FROM operation o
JOIN refund r ON r.account_id = o.account_id AND r.id = (o.intent ->> 'refund_id')::bigint AND r.status <> 'failed'
WHERE o.kind = 'refund' AND o.key IS NOT NULL
GROUP BY o.owner_id, o.family, o.scope, o.key
HAVING count(*) > 1 AND max(o.created_at) - min(o.created_at) < interval '24 hours'
