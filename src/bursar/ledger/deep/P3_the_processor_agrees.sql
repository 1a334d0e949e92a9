-- Nothing is recorded that the simulated processor's own books do not show: captures, refunds and their amounts. Its
-- books are empty on a live instance, where the processor's statement takes their place.
SELECT format('payment %s of account %s was captured, says our ledger; the processor has %s of %s', j.ref, j.account_id,
              s.captured_minor, s.reference) AS place
FROM journal j
LEFT JOIN payment p ON p.account_id = j.account_id AND p.id::text = j.ref
LEFT JOIN simulator.payment s ON s.reference = p.processor_reference
WHERE j.kind IN ('payment', 'late_capture') AND EXISTS (SELECT FROM simulator.payment)
  AND (s.captured_minor IS DISTINCT FROM p.amount_minor OR s.currency <> p.currency OR s.account_id <> p.account_id
       OR s.merchant_reference <> p.payment_reference)
UNION ALL
SELECT format('refund %s of account %s is %s; the processor says %s of %s', r.id, r.account_id, r.status,
              coalesce(s.refused_code, 'done'), s.amount_minor)
FROM refund r
LEFT JOIN simulator.refund s ON s.key = 'refund-' || r.id
WHERE r.account_id > 1000 AND r.status <> 'pending' AND EXISTS (SELECT FROM simulator.payment)
  AND ((r.status = 'succeeded') <> (s.key IS NOT NULL AND s.refused_code IS NULL)
       OR (s.key IS NOT NULL AND (s.amount_minor, s.currency) <> (r.amount_minor, r.currency)))
UNION ALL
SELECT format('the processor charged %s %s times', payment_id, count(*))
FROM simulator.attempt
WHERE state = 'succeeded'
GROUP BY payment_id
HAVING count(*) > 1
UNION ALL
SELECT format('the processor has %s checkouts for payment %s of account %s', count(*), merchant_reference, account_id)
FROM simulator.payment
GROUP BY account_id, merchant_reference
HAVING count(*) > 1
