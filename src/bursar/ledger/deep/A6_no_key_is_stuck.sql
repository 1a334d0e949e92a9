-- A key without a reply is one whose operation is still under way.
SELECT format('key %s of account %s (%s) has had no reply since %s', k.key, k.account_id, k.scope, k.created_at) AS place
FROM idempotency_key k
WHERE k.status IS NULL
  AND NOT EXISTS (
      SELECT FROM operation o
      WHERE o.owner_id = k.account_id AND o.family = k.family AND o.scope = k.scope AND o.key = k.key
        AND o.state IN ('calling', 'unknown', 'review')
  )
