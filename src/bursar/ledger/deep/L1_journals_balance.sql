-- Every journal has two legs or more and adds up to zero; so does each currency as a whole.
WITH leg AS (
    SELECT j.account_id, j.id, j.currency, g.amount, g.account, g.owner
    FROM journal j
    CROSS JOIN LATERAL unnest(j.owners, j.accounts, j.amounts) AS g (owner, account, amount)
)
SELECT format('journal %s of account %s: %s legs, out by %s', id, account_id, count(*), sum(amount)) AS place
FROM leg
GROUP BY account_id, id
HAVING count(*) < 2 OR sum(amount) IS DISTINCT FROM 0
    OR count(*) <> count(amount) OR count(*) <> count(account) OR count(*) <> count(owner) OR bool_or(amount = 0)
UNION ALL
SELECT format('%s: all legs are out by %s', currency, sum(amount))
FROM leg
GROUP BY currency
HAVING sum(amount) <> 0
UNION ALL
SELECT format('journal %s of account %s has no legs', id, account_id)
FROM journal
WHERE cardinality(amounts) = 0
