from datetime import timedelta
import asyncio, time
from bursar.db.pool import Database
from bursar.events import lanes
from tests.events.factories import *
from tests.events.receivers import receiver
from tests.events.test_engine import _pile_up
async def test_x(service):
    async with receiver() as hooks:
        dead, alive = await service.open_account(), await service.open_account()
        webhook = await register(service, dead, hooks.url("/hang"))
        await register(service, alive, hooks.url("/ok"))
        await happen(service.db, dead)
        await hooks.wait_for(1, "/hang")
        t=time.monotonic()
        await _pile_up(service.urls, dead, webhook["id"], 1_000_000)
        print("pile", time.monotonic()-t)
        owner = await Database.open(service.urls.owner, size=1, statement_timeout="60s")
        place=f"webhook:{webhook['id']}"
        for name, sql, args in (("read", lanes._READ, ([dead.merchant_id],[place],[lanes.BEGINNING[0]],[0],[1],True,1)),
            ("requeue", lanes._REQUEUE, ([dead.merchant_id],[place],[1])),
            ("claim", lanes._CLAIM, (timedelta(seconds=30), False, 5, True, 1)),):
            print(name, flush=True)
            rows = await owner.fetch("EXPLAIN (ANALYZE, BUFFERS OFF) "+sql, *args)
            print("\n".join(r[0] for r in rows), flush=True)
        for n in range(1,4):
            t=time.monotonic()
            await happen(service.db, alive)
            service.worker._wake()
            try:
                await hooks.wait_for(n, "/ok")
            except TimeoutError:
                print([dict(r) for r in await owner.fetch("select pid, state, wait_event_type, wait_event, now()-query_start t, left(query,200) q from pg_stat_activity where state<>'idle'")])
                print([dict(r) for r in await owner.fetch("select * from destination")], await owner.fetchval("select count(*) from event where not fanned_out"))
            print(time.monotonic()-t)
        await owner.close()
