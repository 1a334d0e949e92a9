-- A delivery counts as many attempts as are on record; it succeeded if and only if one was answered 2xx, and was given
-- up only after all attempts of its schedule, or when it was told to.
WITH made AS (
    SELECT account_id, delivery_id, count(*) AS attempts, max(number) AS newest,
           bool_or(response_code BETWEEN 200 AND 299) AS accepted, bool_or(response_code = 410) AS gone
    FROM delivery_attempt
    GROUP BY account_id, delivery_id
)
SELECT format('delivery %s of account %s is %s after %s attempts, %s on record', d.id, d.account_id, d.status,
              d.attempts, coalesce(m.attempts, 0)) AS place
FROM delivery d
LEFT JOIN made m ON m.account_id = d.account_id AND m.delivery_id = d.id
WHERE d.account_id > 1000
  AND (d.attempts <> coalesce(m.attempts, 0) OR d.attempts <> coalesce(m.newest, 0)
       OR (d.status = 'succeeded' AND m.accepted IS NOT TRUE)
       OR (d.exhausted AND d.step < 10 AND m.gone IS NOT TRUE)
       OR (d.status IN ('pending', 'failed') AND NOT d.exhausted AND d.next_attempt_at IS NULL))
