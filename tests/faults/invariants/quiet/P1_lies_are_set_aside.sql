-- Callbacks with a wrong amount, currency, merchant or payment lie in quarantine; genuine ones never do.
SELECT format('callback %s is %s for %s', event_id, state, coalesce(reason, 'no reason')) AS place
FROM processor_inbox
WHERE (event_id LIKE 'sev\_lie%') <> (state = 'quarantined')
