"""Every movement of money the service knows, as a pure function from its facts to a journal.

Amounts are minor units of the journal's currency. A leg is read as 'credit': what a wallet gains, or what one of the
service's own accounts is owed less or owes more; the legs of a journal add up to zero. `docs/ledger.md` shows the same
as a table. Which unsettled part an amount is drawn from or goes back to is decided when it is posted.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from bursar.core.money import pro_rata
from bursar.ledger.kinds import ADJUSTMENTS, BANK, BANK_TRANSIT, FEES, PROCESSOR_CLEARING, UNALLOCATED
from bursar.ledger.lines import (
    Draw,
    Journal,
    credit,
    credit_back,
    credit_own,
    credit_unsettled,
    draw,
    hold,
    journal,
    release,
    release_to_spend,
    service,
    settle,
)

FeePayer = Literal["connected_account", "platform"]
Speed = Literal["standard", "instant"]

# A standard payout takes settled money only. An instant one may reach for what has not settled yet.
_PAYOUT_DRAW: dict[Speed, Draw] = {"standard": "main", "instant": "oldest"}


def transaction(transaction_id: int | str) -> str:
    """The name of a transaction as a source of unsettled money."""
    return f"transaction:{transaction_id}"


# Payments --------------------------------------------------------------------------------------------------------


def payment(
    *,
    account_id: int,
    transaction_id: int | str,
    currency: str,
    amount: int,
    settles_at: datetime | None,
    processing_fee: int = 0,
    application_fee: int = 0,
    platform_id: int | None = None,
    fee_payer: FeePayer = "connected_account",
    note: str = "",
    event_at: datetime | None = None,
) -> Journal:
    """A captured payment: the processor owes it, the merchant gets it less the fees, and it settles later.

    The application fee is the platform's. The processing fee is the payer's: it may leave a wallet negative.
    """
    source = transaction(transaction_id)
    if platform_id is None and (application_fee or fee_payer == "platform"):
        raise ValueError("only a connected account has a platform to share with")
    lines = [
        service(PROCESSOR_CLEARING, -amount),
        credit_unsettled(account_id, "payment", amount, source, settles_at),
    ]
    if platform_id is not None:
        lines += [
            draw(account_id, "application_fee", application_fee, "opened", source),
            credit_unsettled(platform_id, "application_fee", application_fee, source, settles_at),
        ]
    payer = platform_id if platform_id is not None and fee_payer == "platform" else account_id
    lines += [
        draw(payer, "processing_fee", processing_fee, "opened", source),
        service(FEES, processing_fee),
    ]
    return journal(account_id, "payment", transaction_id, currency, lines, related=source, note=note, event_at=event_at)


def settlement(*, account_id: int, currency: str, source: str) -> Journal:
    """Funds become settled: whatever is left of the source moves from pending to main. No public row."""
    return journal(account_id, "settlement", source, currency, [settle(account_id, source)], related=source)


def late_capture(*, account_id: int, transaction_id: int | str, currency: str, amount: int, note: str = "") -> Journal:
    """The processor captured a payment that had been closed: nobody's money until it is refunded."""
    lines = [service(PROCESSOR_CLEARING, -amount), service(UNALLOCATED, amount)]
    related = transaction(transaction_id)
    return journal(account_id, "late_capture", transaction_id, currency, lines, related=related, note=note)


def late_capture_refund(
    *, account_id: int, transaction_id: int | str, currency: str, amount: int, note: str = ""
) -> Journal:
    """A late capture went back to the customer."""
    lines = [service(UNALLOCATED, -amount), service(PROCESSOR_CLEARING, amount)]
    related = transaction(transaction_id)
    return journal(account_id, "late_capture_refund", transaction_id, currency, lines, related=related, note=note)


# Refunds ---------------------------------------------------------------------------------------------------------


def application_fee_share(*, application_fee: int, amount: int, payment_amount: int, refunded_before: int) -> int:
    """The part of the application fee that belongs to a refund; all the parts of a payment add up to the fee."""
    return pro_rata(application_fee, amount, payment_amount, before=refunded_before)


def refund(
    *,
    account_id: int,
    refund_id: int | str,
    transaction_id: int | str,
    currency: str,
    amount: int,
    application_fee_reversed: int = 0,
    platform_id: int | None = None,
    note: str = "",
    event_at: datetime | None = None,
) -> Journal:
    """Money back to the customer. The processing fee is kept; the application fee's share comes from the platform.

    The platform's share is a fact and may leave its wallet negative; the merchant's refund is a request.
    """
    source = transaction(transaction_id)
    lines = []
    if platform_id is not None:
        lines += [
            draw(platform_id, "application_fee_reversal", application_fee_reversed, "own", source),
            credit_own(account_id, "application_fee_reversal", application_fee_reversed, source),
        ]
    lines += [
        draw(account_id, "refund", amount, "own", source),
        service(PROCESSOR_CLEARING, amount),
    ]
    related = f"refund:{refund_id}"
    return journal(account_id, "refund", refund_id, currency, lines, related=related, note=note, event_at=event_at)


def refund_failed(
    *,
    account_id: int,
    refund_id: int | str,
    transaction_id: int | str,
    currency: str,
    amount: int,
    application_fee_reversed: int = 0,
    platform_id: int | None = None,
    note: str = "",
) -> Journal:
    """The processor could not refund: everything goes back to where it was."""
    lines = [
        service(PROCESSOR_CLEARING, -amount),
        credit_back(account_id, "refund_failed", amount),
    ]
    if platform_id is not None:
        source = transaction(transaction_id)
        lines += [
            draw(account_id, "application_fee_reversal", application_fee_reversed, "own", source),
            credit_back(platform_id, "application_fee_reversal", application_fee_reversed),
        ]
    return journal(account_id, "refund_failed", refund_id, currency, lines, related=f"refund:{refund_id}", note=note)


# Reserves --------------------------------------------------------------------------------------------------------


def reserve(
    *, account_id: int, hold_id: int | str, transaction_id: int | str, currency: str, amount: int, note: str = ""
) -> Journal:
    """Money of a transaction is set aside until proof or risk is cleared."""
    source = transaction(transaction_id)
    lines = [hold(account_id, "reserve", amount, "own", source)]
    return journal(account_id, "reserve", hold_id, currency, lines, related=source, note=note)


def reserve_release(
    *, account_id: int, release_id: int | str, transaction_id: int | str, currency: str, amount: int, note: str = ""
) -> Journal:
    """All or some of what is set aside for a transaction goes back."""
    lines = [release(account_id, "release", amount)]
    related = transaction(transaction_id)
    return journal(account_id, "release", release_id, currency, lines, related=related, note=note)


# Payouts and disbursements ---------------------------------------------------------------------------------------


def payout(
    *,
    account_id: int,
    payout_id: int | str,
    currency: str,
    amount: int,
    fee: int = 0,
    speed: Speed = "standard",
    note: str = "",
) -> Journal:
    """Money leaves the wallet for the merchant's bank; the fee, if any, with it."""
    lines = [
        draw(account_id, "payout", amount, _PAYOUT_DRAW[speed]),
        service(BANK_TRANSIT, amount),
        draw(account_id, "payout_fee", fee, _PAYOUT_DRAW[speed]),
        service(FEES, fee),
    ]
    return journal(account_id, "payout", payout_id, currency, lines, related=f"payout:{payout_id}", note=note)


def payout_paid(*, account_id: int, payout_id: int | str, currency: str, amount: int, note: str = "") -> Journal:
    """The bank has sent it."""
    lines = [service(BANK_TRANSIT, -amount), service(BANK, amount)]
    return journal(account_id, "payout_paid", payout_id, currency, lines, related=f"payout:{payout_id}", note=note)


def payout_return(
    *,
    account_id: int,
    payout_id: int | str,
    currency: str,
    amount: int,
    fee_returned: int = 0,
    was_paid: bool = False,
    note: str = "",
) -> Journal:
    """A payout failed, was cancelled or was sent back: once, whichever it was, the money returns."""
    lines = [
        service(BANK if was_paid else BANK_TRANSIT, -amount),
        credit_back(account_id, "payout_return", amount),
        service(FEES, -fee_returned),
        credit_back(account_id, "payout_fee_return", fee_returned),
    ]
    return journal(account_id, "payout_return", payout_id, currency, lines, related=f"payout:{payout_id}", note=note)


def disbursement(
    *, account_id: int, payment_id: int | str, currency: str, amount: int, fee: int = 0, note: str = ""
) -> Journal:
    """Settled money leaves the wallet for somebody else's bank account."""
    lines = [
        draw(account_id, "disbursement", amount, "main"),
        service(BANK_TRANSIT, amount),
        draw(account_id, "payout_fee", fee, "main"),
        service(FEES, fee),
    ]
    related = f"disbursement:{payment_id}"
    return journal(account_id, "disbursement", payment_id, currency, lines, related=related, note=note)


def disbursement_paid(*, account_id: int, payment_id: int | str, currency: str, amount: int, note: str = "") -> Journal:
    """The bank has sent it."""
    lines = [service(BANK_TRANSIT, -amount), service(BANK, amount)]
    related = f"disbursement:{payment_id}"
    return journal(account_id, "disbursement_paid", payment_id, currency, lines, related=related, note=note)


def disbursement_return(
    *,
    account_id: int,
    payment_id: int | str,
    currency: str,
    amount: int,
    fee_returned: int = 0,
    was_paid: bool = False,
    note: str = "",
) -> Journal:
    """A disbursement failed, was cancelled or was sent back."""
    lines = [
        service(BANK if was_paid else BANK_TRANSIT, -amount),
        credit_back(account_id, "disbursement_return", amount),
        service(FEES, -fee_returned),
        credit_back(account_id, "payout_fee_return", fee_returned),
    ]
    related = f"disbursement:{payment_id}"
    return journal(account_id, "disbursement_return", payment_id, currency, lines, related=related, note=note)


# Disputes. One that is lost or accepted moves nothing more: the debit of its opening stands. -----------------------


def dispute(
    *,
    account_id: int,
    dispute_id: int | str,
    transaction_id: int | str,
    currency: str,
    amount: int,
    fee: int = 0,
    note: str = "",
    event_at: datetime | None = None,
) -> Journal:
    """The card network has taken the amount back, and charges for it."""
    source = transaction(transaction_id)
    lines = [
        draw(account_id, "dispute", amount, "own", source),
        service(PROCESSOR_CLEARING, amount),
        draw(account_id, "dispute_fee", fee, "own", source),
        service(FEES, fee),
    ]
    related = f"dispute:{dispute_id}"
    return journal(account_id, "dispute", dispute_id, currency, lines, related=related, note=note, event_at=event_at)


def dispute_won(
    *,
    account_id: int,
    dispute_id: int | str,
    currency: str,
    amount: int,
    note: str = "",
    event_at: datetime | None = None,
) -> Journal:
    """The network gives the amount back; the fee is kept."""
    lines = [service(PROCESSOR_CLEARING, -amount), credit_back(account_id, "dispute_won", amount)]
    related = f"dispute:{dispute_id}"
    return journal(
        account_id, "dispute_won", dispute_id, currency, lines, related=related, note=note, event_at=event_at
    )


# Adjustments -----------------------------------------------------------------------------------------------------


def adjustment(
    *,
    account_id: int,
    adjustment_id: int | str,
    currency: str,
    amount: int,
    settles_at: datetime | None = None,
    pending: bool = False,
    note: str = "",
) -> Journal:
    """An operator's correction, up or down. In `pending`, it settles later, or draws on what has not settled yet."""
    related = f"adjustment:{adjustment_id}"
    if amount > 0:
        if pending and settles_at is None:
            raise ValueError("pending money needs a date on which it settles")
        moved = credit_unsettled(account_id, "adjustment", amount, related, settles_at if pending else None)
    else:
        moved = draw(account_id, "adjustment", -amount, "pending" if pending else "main")
    lines = [moved, service(ADJUSTMENTS, -amount)]
    return journal(account_id, "adjustment", adjustment_id, currency, lines, related=related, note=note)


# Collections and funding: set aside first, then post or void -------------------------------------------------------


def collection_hold(
    *, account_id: int, collection_id: int | str, currency: str, amount: int, note: str = ""
) -> Journal:
    """A shop's settled money is set aside for the fees it owes."""
    lines = [hold(account_id, "collection_hold", amount, "main")]
    related = f"collection:{collection_id}"
    return journal(account_id, "collection_hold", collection_id, currency, lines, related=related, note=note)


def collection(
    *,
    account_id: int,
    collection_id: int | str,
    currency: str,
    amount: int,
    platform_id: int,
    service_share: int = 0,
    note: str = "",
) -> Journal:
    """What was set aside is collected: the service keeps its share, the platform gets the rest."""
    lines = [
        release_to_spend(account_id, "collection_release", amount),
        draw(account_id, "collection", amount, "main"),
        service(FEES, service_share),
        credit(platform_id, "collection", amount - service_share),
    ]
    related = f"collection:{collection_id}"
    return journal(account_id, "collection", collection_id, currency, lines, related=related, note=note)


def collection_void(
    *, account_id: int, collection_id: int | str, currency: str, amount: int, note: str = ""
) -> Journal:
    """What was set aside goes back to the shop."""
    lines = [release(account_id, "collection_release", amount)]
    related = f"collection:{collection_id}"
    return journal(account_id, "collection_void", collection_id, currency, lines, related=related, note=note)


def funding_hold(*, account_id: int, funding_id: int | str, currency: str, amount: int, note: str = "") -> Journal:
    """A platform's settled money is set aside for another account."""
    lines = [hold(account_id, "funding_hold", amount, "main")]
    return journal(account_id, "funding_hold", funding_id, currency, lines, related=f"funding:{funding_id}", note=note)


def funding(
    *, account_id: int, funding_id: int | str, currency: str, amount: int, receiver_id: int, note: str = ""
) -> Journal:
    """What was set aside reaches the other account."""
    lines = [
        release_to_spend(account_id, "funding_release", amount),
        draw(account_id, "funding", amount, "main"),
        credit(receiver_id, "funding", amount),
    ]
    return journal(account_id, "funding", funding_id, currency, lines, related=f"funding:{funding_id}", note=note)


def funding_void(*, account_id: int, funding_id: int | str, currency: str, amount: int, note: str = "") -> Journal:
    """What was set aside goes back to the platform."""
    lines = [release(account_id, "funding_release", amount)]
    return journal(account_id, "funding_void", funding_id, currency, lines, related=f"funding:{funding_id}", note=note)
