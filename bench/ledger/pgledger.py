"""pgledger, if the run was given its SQL: a payment is three transfers, from one account to three others.

It is in no package registry and its files are not part of this repository. `make bench PEER_SQL=file` loads a file of
SQL into the benchmark's own server before the ledger's part; the case runs if that left pgledger's functions there.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import asyncpg

from bench.stage import Stage

RATIOS = ("ledger_vs_pgledger_spread", "ledger_vs_pgledger_hot")

_ACCOUNTS = """
CREATE TABLE pgledger_bench (n integer PRIMARY KEY, id text NOT NULL);
INSERT INTO pgledger_bench
SELECT n, (pgledger_create_account('account ' || n, 'GBP')).id FROM generate_series(1, 10001) AS n;
DO $$
DECLARE
    name  text;
BEGIN
    FOR name IN SELECT relname FROM pg_class WHERE relname LIKE 'pgledger%' AND relkind IN ('r', 'v') LOOP
        EXECUTE format('GRANT ALL ON %I TO bursar_app', name);
    END LOOP;
END $$;
ANALYZE;
"""

_PAYMENT = r"""
\set payer random(1, 2500)
\set shop random(2501, 5000)
\set fees random(5001, 7500)
\set platform {platform}
SELECT count(*)
FROM pgledger_create_transfers((
    SELECT array_agg((payer.id, payee.id, part.amount)::transfer_request ORDER BY part.place)
    FROM pgledger_bench AS payer,
         (VALUES (1, :shop::integer, 93.30), (2, :fees::integer, 1.70), (3, :platform::integer, 5.00))
             AS part (place, n, amount)
    JOIN pgledger_bench AS payee ON payee.n = part.n
    WHERE payer.n = :payer::integer
));
"""


def script(*, hot: bool) -> str:
    return _PAYMENT.format(platform="10001" if hot else "random(7501, 10000)")


async def prepare(staged: Stage) -> dict[str, str]:
    """Its tables with 10,000 accounts and a hot one; or why its ratios are missing."""
    given = os.environ.get("PEER_SQL")
    if not given:
        return dict.fromkeys(RATIOS, "no registry has pgledger; give its SQL with PEER_SQL=file to measure it")
    connection = await staged.connect()
    try:
        await connection.execute(await asyncio.to_thread(Path(given).read_text))
        await connection.execute(_ACCOUNTS)
    except asyncpg.PostgresError as error:
        return dict.fromkeys(RATIOS, f"{given} did not make pgledger's functions: {error}")
    finally:
        await connection.close()
    return {}
