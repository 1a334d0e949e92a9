-- The journals that were sealed are all there, as they were, and each seal follows from the one before it.
WITH digested AS (
    SELECT j.account_id, j.id, j.txid,
           sha256(convert_to(ROW(
               j.account_id, j.id, j.kind, j.ref, j.currency, j.owners, j.accounts, j.amounts, j.related, j.note,
               (extract(epoch FROM j.event_at) * 1000000)::bigint,
               (extract(epoch FROM j.created_at) * 1000000)::bigint, j.txid
           )::text, 'UTF8')) AS digest
    FROM journal j
), found AS (
    SELECT s.number, sha256(string_agg(d.digest, ''::bytea ORDER BY d.txid, d.id)) AS digest, count(*) AS journals
    FROM seal s
    JOIN digested d ON d.txid >= s.from_txid AND d.txid < s.upto_txid
    GROUP BY s.number
), chained AS (
    SELECT s.*, lag(s.head) OVER w AS previous_head, lag(s.number) OVER w AS previous, lag(s.upto_txid) OVER w AS upto
    FROM seal s
    WINDOW w AS (ORDER BY s.number)
)
SELECT format('seal %s', c.number) AS place
FROM chained c
LEFT JOIN found f USING (number)
WHERE f.digest IS DISTINCT FROM c.digest
   OR f.journals IS DISTINCT FROM cardinality(c.ids)
   OR c.number <> coalesce(c.previous, 0) + 1
   OR c.from_txid <> coalesce(c.upto, 0)
   OR c.head <> sha256(coalesce(c.previous_head, ''::bytea)
                       || convert_to(format('%s:%s:%s:', c.number, c.from_txid, c.upto_txid), 'UTF8') || c.digest)
