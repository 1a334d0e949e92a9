"""What an audit holds payments, refunds and reserves to, besides the ledger's own rules. The sandbox's samples have no
journals, so they are left out.
"""

from __future__ import annotations

from bursar.ledger.audit import Check

CHECKS = (
    Check(
        "payments_are_credited_once",
        "every paid payment has one journal, of its amount, and no other payment has any",
        """
        SELECT format('payment %s of account %s is %s', p.id, p.account_id, p.status) AS place
        FROM payment p
        LEFT JOIN journal j ON j.account_id = p.account_id AND j.kind = 'payment' AND j.ref = p.id::text
        LEFT JOIN LATERAL (
            SELECT sum(leg.amount) AS amount
            FROM unnest(j.accounts, j.amounts) AS leg (account, amount)
            WHERE leg.account = 'processor_clearing'
        ) AS cleared ON true
        WHERE p.account_id > 1000
          AND ((p.paid_at IS NOT NULL) <> (j.id IS NOT NULL) OR cleared.amount <> -p.amount_minor)
        """,
    ),
    Check(
        "refunds_have_their_journals",
        "every refund was taken from a wallet once, and given back if and only if it failed",
        """
        SELECT format('refund %s of account %s is %s', r.id, r.account_id, r.status) AS place
        FROM refund r
        LEFT JOIN journal taken ON taken.account_id = r.account_id AND taken.kind = 'refund' AND taken.ref = r.id::text
        LEFT JOIN journal given
            ON given.account_id = r.account_id AND given.kind = 'refund_failed' AND given.ref = r.id::text
        WHERE r.account_id > 1000 AND (taken.id IS NULL OR (r.status = 'failed') <> (given.id IS NOT NULL))
        """,
    ),
    Check(
        "payments_match_their_refunds",
        "what a payment shows as refunded, and on its way, is the sum of its refunds",
        """
        SELECT format('payment %s of account %s', p.id, p.account_id) AS place
        FROM payment p
        LEFT JOIN (
            SELECT account_id, payment_id,
                   sum(amount_minor) FILTER (WHERE status = 'succeeded') AS refunded,
                   sum(amount_minor) FILTER (WHERE status = 'pending') AS refunding
            FROM refund
            GROUP BY account_id, payment_id
        ) AS r ON r.account_id = p.account_id AND r.payment_id = p.id
        WHERE p.account_id > 1000
          AND (p.refunded_minor, p.refunding_minor) <> (coalesce(r.refunded, 0), coalesce(r.refunding, 0))
        """,
    ),
    Check(
        "reserves_match_wallets",
        "what a payment shows as its reserve is what the wallet holds for it",
        """
        SELECT format('payment %s of account %s', p.id, p.account_id) AS place
        FROM payment p
        LEFT JOIN (
            SELECT account_id, currency, claim, sum(amount) AS held
            FROM drawn
            WHERE reserved AND claim LIKE 'transaction:%'
            GROUP BY account_id, currency, claim
        ) AS d ON d.account_id = p.account_id AND d.currency = p.currency AND d.claim = 'transaction:' || p.id
        WHERE p.account_id > 1000 AND p.reserve_minor <> coalesce(d.held, 0)
        """,
    ),
    Check(
        "late_captures_have_a_case",
        "money captured for a closed payment is with a case, and back with the customer once that says so",
        """
        SELECT format('payment %s of account %s', j.ref, j.account_id) AS place
        FROM journal j
        LEFT JOIN review_case c
            ON c.account_id = j.account_id AND c.kind = 'late_capture' AND c.payment_id::text = j.ref
        LEFT JOIN journal back
            ON back.account_id = j.account_id AND back.kind = 'late_capture_refund' AND back.ref = j.ref
        WHERE j.kind = 'late_capture' AND (c.id IS NULL OR (c.status = 'refunded') <> (back.id IS NOT NULL))
        """,
    ),
)
