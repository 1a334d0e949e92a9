-- What the processor did not answer is found out within a day, or lies before a person.
SELECT format('operation %s of account %s (%s) is %s since %s', o.id, o.account_id, o.kind, o.state, o.created_at) AS place
FROM operation o
WHERE o.state IN ('calling', 'unknown') AND o.created_at < instance_now() - interval '25 hours'
UNION ALL
SELECT format('callback %s of account %s waits since %s', i.event_id, i.account_id, i.received_at)
FROM processor_inbox i
WHERE i.state = 'new' AND i.received_at < instance_now() - interval '25 hours'
UNION ALL
SELECT format('refund %s of account %s is pending, and nobody will ask', r.id, r.account_id)
FROM refund r
WHERE r.account_id > 1000 AND r.status = 'pending'
  AND NOT EXISTS (
      SELECT FROM operation o
      WHERE o.account_id = r.account_id AND o.kind = 'refund' AND o.state IN ('calling', 'unknown', 'review')
        AND (o.intent ->> 'refund_id')::bigint = r.id
  )
UNION ALL
SELECT format('payment %s of account %s is pending, and nobody will look', p.id, p.account_id)
FROM payment p
WHERE p.account_id > 1000 AND p.status = 'pending' AND p.due_at IS NULL
