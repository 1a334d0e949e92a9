"""django-hordak: transactions of four legs from many processes. Prints the seconds that each took, as JSON.

python hordak_posts.py HOST DATABASE USER PASSWORD setup|CLIENTS SECONDS spread|hot
"""

import json
import multiprocessing
import random
import sys
import time
from typing import Any

import django
from django.conf import settings

ACCOUNTS = 10_000
CURRENCY = "GBP"

host, database, user, password, what, seconds, where = sys.argv[1:]
settings.configure(
    SECRET_KEY="bench",
    USE_TZ=True,
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "mptt", "hordak"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql", "HOST": host, "NAME": database, "USER": user,
            "PASSWORD": password, "CONN_MAX_AGE": None,
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DEFAULT_CURRENCY=CURRENCY,
    CURRENCIES=[CURRENCY],
)  # fmt: skip
django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from hordak.models import Account, Leg, Transaction  # noqa: E402
from moneyed import Money  # noqa: E402


def setup() -> None:
    call_command("migrate", verbosity=0)
    made = [
        Account(name=f"Account {n}", type="AS", currencies=[CURRENCY], lft=1, rght=2, tree_id=n, level=0)
        for n in range(1, ACCOUNTS + 2)
    ]
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE hordak_account DISABLE TRIGGER USER")
    Account.objects.bulk_create(made, batch_size=1000)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE hordak_account ENABLE TRIGGER USER")
        cursor.execute("ANALYZE")


def post(ids: list[int], legs: tuple[tuple[str, str], ...]) -> None:
    with transaction.atomic():
        made = Transaction.objects.create(description="payment")
        Leg.objects.bulk_create(
            [
                Leg(transaction=made, account_id=account, **{side: Money(amount, CURRENCY)})
                for account, (side, amount) in zip(ids, legs, strict=True)
            ]
        )


LEGS = (("debit", "100.00"), ("credit", "93.30"), ("credit", "1.70"), ("credit", "5.00"))


def client(seed: int, go: Any, found: Any) -> None:
    ids = list(Account.objects.order_by("id").values_list("id", flat=True))
    chance = random.Random(seed)
    times = []
    go.wait()
    until = time.perf_counter() + float(seconds)
    began = time.perf_counter()
    while began < until:
        chosen = chance.sample(ids[:-1], 4)
        if where == "hot":
            chosen[3] = ids[-1]
        post(chosen, LEGS)
        ended = time.perf_counter()
        times.append(ended - began)
        began = ended
    found.put(times)


def load(clients: int) -> list[float]:
    context = multiprocessing.get_context("fork")
    go, found = context.Barrier(clients + 1), context.Queue()
    processes = [context.Process(target=client, args=(seed, go, found)) for seed in range(clients)]
    for process in processes:
        process.start()
    go.wait(120)
    times = [one for _ in processes for one in found.get(timeout=float(seconds) + 60)]
    for process in processes:
        process.join()
    return times


if what == "setup":
    setup()
else:
    print(json.dumps(load(int(what))))
