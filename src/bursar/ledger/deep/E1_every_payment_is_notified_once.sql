-- A payment that wants notifications has one for each of its outcomes that was told, and no other.
WITH told AS (
    SELECT e.account_id, e.event_id, e.type,
           (convert_from(e.body, 'UTF8')::jsonb -> 'data' -> 'transaction' ->> 'id')::bigint AS payment_id
    FROM event e
    WHERE e.account_id > 1000 AND e.type IN ('transaction.succeeded', 'transaction.failed')
)
SELECT format('%s %s of payment %s of account %s', t.type, t.event_id, t.payment_id, t.account_id) AS place
FROM told t
JOIN payment p ON p.account_id = t.account_id AND p.id = t.payment_id
LEFT JOIN (SELECT account_id, event_id, count(*) AS notices FROM ipn GROUP BY account_id, event_id) AS i
    ON i.account_id = t.account_id AND i.event_id = t.event_id
WHERE coalesce(i.notices, 0) <> (p.ipn_url IS NOT NULL)::integer
UNION ALL
SELECT format('notification %s of account %s tells of no event', i.id, i.account_id)
FROM ipn i
LEFT JOIN told t ON t.account_id = i.account_id AND t.event_id = i.event_id
WHERE i.account_id > 1000 AND t.event_id IS NULL
