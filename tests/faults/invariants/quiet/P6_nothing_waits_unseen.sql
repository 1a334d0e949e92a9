-- Once quiet, everything the processor told was applied, or lies in quarantine with its reason.
SELECT format('callback %s is %s', event_id, state) AS place
FROM processor_inbox
WHERE state = 'new'
UNION ALL
SELECT format('payment %s is being closed for %s and nobody is at it', id, closing)
FROM payment
WHERE account_id > 1000 AND closing IS NOT NULL AND due_at IS NULL
