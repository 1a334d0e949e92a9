"""The mistakes. Each has a real effect on somebody's money, data or trust, and none stops the service from working.

The service has more than one line of defence in most places; where a second one would hold, it is taken away, too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Patch:
    """`old` is in the file exactly once."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Bug:
    name: str
    wrong: str
    patches: tuple[Patch, ...]
    plan: str  # of plans.py: which part must notice it
    shows: str  # a pattern of the violation that it must be noticed by


BUGS = (
    Bug(
        "no-row-lock",
        "Refunds of one payment at once do not wait for each other, and no constraint adds them up.",
        (
            Patch(
                "src/bursar/features/payments/queries.py",
                '"SELECT * FROM payment WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE", account_id, payment_id',
                '"SELECT * FROM payment WHERE account_id = $1 AND id = $2", account_id, payment_id',
            ),
            Patch(
                "src/bursar/db/migrations/0006_payments.sql",
                "    CONSTRAINT payment_refunds_within CHECK (refunded_minor + refunding_minor <= amount_minor),\n",
                "",
            ),
        ),
        plan="wallets",
        shows=r"refund_failed|of 100 was (given back|spent)|is left of 100|was refunded and",
    ),
    Bug(
        "reply-before-durable",
        "Sessions commit without waiting for the disk, and the start-up check no longer looks at that.",
        (
            Patch("src/bursar/db/pool.py", '    "jit": "off",\n', '    "synchronous_commit": "off",\n'),
            Patch(
                "src/bursar/http/guard.py",
                '    if row["synchronous_commit"] == "off":\n',
                '    if row["synchronous_commit"] == "":\n',
            ),
        ),
        plan="database kills",
        shows=r"^A[14]: ",
    ),
    Bug(
        "lost-commit-is-success",
        "A batch whose connection is lost is answered as if it had been written: it had been sent, after all.",
        (
            Patch(
                "src/bursar/http/batched.py",
                "        except asyncpg.LockNotAvailableError:\n            return False\n",
                "        except asyncpg.LockNotAvailableError:\n            return False\n"
                "        except asyncpg.PostgresConnectionError:\n            pass\n",
            ),
        ),
        plan="cuts",
        shows=r"^A[147]: .*/v2/hosted-payments",
    ),
    Bug(
        "no-outbox-row",
        "Outcomes that callbacks bring are written without their events.",
        (
            Patch(
                "src/bursar/features/payments/callbacks.py",
                "        await acts.write_events()\n",
                "",
            ),
        ),
        plan="load",
        shows=r"^E1_every_change_is_told_once",
    ),
    Bug(
        "key-taken-over",
        "A key that was used is taken over as if it had expired, whether it has or not.",
        (
            Patch(
                "src/bursar/db/migrations/0001_foundation.sql",
                "        WHERE held.expires_at <= excluded.created_at AND held.status IS NOT NULL;\n",
                "        WHERE held.status IS NOT NULL;\n",
            ),
        ),
        plan="twins",
        shows=r"effects of one key",
    ),
    Bug(
        "unstable-processor-key",
        "Whoever asks for a refund again asks under another key than the first time.",
        (
            Patch(
                "src/bursar/features/refunds/service.py",
                """        key=f"refund-{intent['refund_id']}",\n""",
                """        key=f"refund-{intent['refund_id']}" + ("" if outside.may_wait else "-again"),\n""",
            ),
        ),
        plan="crash, unanswered refund",
        shows=r"P3_totals_agree: the processor refunded",
    ),
    Bug(
        "timeout-is-refusal",
        "A refund that the processor did not answer is taken for refused, and the money is given back to the merchant.",
        (
            Patch(
                "src/bursar/features/refunds/service.py",
                "    except Rejected as error:\n",
                '    except TimeoutError:\n        return RefundRefused("timeout")\n    except Rejected as error:\n',
            ),
        ),
        plan="crash, unanswered refund",
        shows=r"P3_the_processor_agrees: refund \d+ of account \d+ is failed",
    ),
    Bug(
        "late-capture-forgotten",
        "Money captured for a payment that was already closed is not noticed.",
        (
            Patch(
                "src/bursar/features/payments/outcomes.py",
                '        change.late = row["status"] in states.CLOSED\n',
                '        change.late = row["status"] == "pending" and not change.captured\n',
            ),
        ),
        plan="crash, late capture",
        shows=r"P3_totals_agree: the processor captured",
    ),
    Bug(
        "other-bytes-signed",
        "A webhook's body is encoded anew when it is sent; its signature is that of the stored one.",
        (
            Patch(
                "src/bursar/events/sender.py",
                '            return signing.webhook_headers(keys, *facts, row["body"]), row["body"]\n',
                '            sent = json.dumps(json.loads(row["body"])).encode()\n'
                '            return signing.webhook_headers(keys, *facts, row["body"]), sent\n',
            ),
            Patch("src/bursar/events/sender.py", "import contextlib\n", "import contextlib\nimport json\n"),
        ),
        plan="load",
        shows=r"^E3: .* (has other bytes than the event|is not signed with its secret)",
    ),
    Bug(
        "any-answer-is-delivery",
        "Whatever a receiver answers, a redirect or an error, counts as delivered.",
        (
            Patch(
                "src/bursar/events/schedule.py",
                "    if code is not None and 200 <= code < 300:\n",
                "    if code is not None and code != 410:\n",
            ),
        ),
        plan="load",
        shows=r"^E2",
    ),
    Bug(
        "account-forgotten",
        "A payment is found by its number alone, whoever asks for it.",
        (
            Patch(
                "src/bursar/features/payments/queries.py",
                "FROM payment WHERE account_id = wanted.account_id AND id = wanted.id LIMIT 1",
                "FROM payment WHERE id = wanted.id LIMIT 1",
            ),
        ),
        plan="strangers",
        shows=r"^another merchant: GET /v2/(transactions|hosted-payments)/\S+( tells|: the reply has)",
    ),
    Bug(
        "secret-in-log",
        "A refused Authorization header is logged as it came, and the log's own mask is gone.",
        (
            Patch(
                "src/bursar/http/pipeline.py",
                "        except ApiError:\n            if throttle:\n",
                "        except ApiError:\n"
                '            log.warning("authentication.refused", authorization=authorization)\n'
                "            if throttle:\n",
            ),
            Patch("src/bursar/logs.py", "            _mask_secrets,\n", ""),
        ),
        plan="canaries",
        shows=r"^the (log|file \S+) has ",
    ),
)
