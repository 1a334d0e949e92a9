-- Once quiet, no key waits for its reply and no operation for its outcome.
SELECT format('key %s of account %s has no reply', key, account_id) AS place
FROM idempotency_key
WHERE status IS NULL
UNION ALL
SELECT format('operation %s (%s) of account %s is %s', id, kind, account_id, state)
FROM operation
WHERE state IN ('calling', 'unknown')
UNION ALL
SELECT format('a refund of account %s is still pending: %s', account_id, id)
FROM refund
WHERE account_id > 1000 AND status = 'pending'
