-- A delivery goes to the account that an event is about, or to its platform at that time, and to nobody else.
SELECT format('delivery %s of account %s tells of account %s', d.id, d.account_id, d.source_account_id) AS place
FROM delivery d
LEFT JOIN event e ON d.channel = 'webhook' AND e.account_id = d.source_account_id AND e.id = d.source_id
LEFT JOIN ipn i ON d.channel = 'ipn' AND i.account_id = d.source_account_id AND i.id = d.source_id
WHERE d.account_id > 1000
  AND NOT coalesce(CASE d.channel
          WHEN 'ipn' THEN i.account_id = d.account_id
          ELSE (d.account_id = e.account_id AND e.audience IN ('both', 'account', 'none'))
               OR (d.account_id = e.platform_id AND e.audience IN ('both', 'platform', 'none'))
      END, false)
