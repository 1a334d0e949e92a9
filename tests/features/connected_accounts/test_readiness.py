"""What an account may do and needs: the rules alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bursar.features.accounts import readiness
from bursar.features.accounts.readiness import Case, Facts
from bursar.http.caller import Gate, admit

DUE = datetime(2026, 3, 1, tzinfo=UTC)


def row(**changes: Any) -> dict[str, Any]:
    return {
        "status": "active", "kyc_status": "verified", "connect_status": "active", "payments_paused": False,
        "payouts_paused": False, "compliance_holds": [], "capabilities": {}, **changes,
    }  # fmt: skip


READY = Facts("verified", None, bank_active=True)

rows = st.builds(
    row,
    status=st.sampled_from(["pending", "active", "review", "banned"]),
    kyc_status=st.sampled_from(["pending", "verified", "rejected"]),
    connect_status=st.sampled_from(["active", "paused", "review"]),
    payments_paused=st.booleans(),
    payouts_paused=st.booleans(),
    compliance_holds=st.lists(st.sampled_from(["payments", "payouts"]), unique=True),
)
known = st.builds(
    Facts,
    st.sampled_from([None, "pending", "opened", "processing", "requires_input", "verified"]),
    st.none() | st.just(("code", "message")),
    bank_active=st.booleans(),
    bank_pending=st.booleans(),
    cases=st.lists(
        st.builds(Case, st.integers(1, 9), st.sampled_from(["open", "submitted", "rejected", "expired"]), st.just(DUE),
                  st.booleans()), max_size=3,
    ).map(tuple),
)  # fmt: skip


class TestRequirements:
    def test_nothing_is_due_of_a_ready_account(self) -> None:
        assert msgspec.to_builtins(readiness.requirements(row(), READY)) == {
            "currently_due": [], "pending_verification": [], "past_due": [], "errors": [], "current_deadline": None,
            "disabled_reason": None,
        }  # fmt: skip

    def test_each_case_has_its_place(self) -> None:
        cases = (
            Case(1, "open", DUE, blocks=True),
            Case(2, "submitted", DUE, blocks=False),
            Case(3, "expired", DUE, blocks=True),
            Case(4, "rejected", DUE, blocks=False, notes="Cut off."),
        )
        found = readiness.requirements(row(status="pending"), Facts("verified", None, bank_active=True, cases=cases))
        assert found.currently_due == ["compliance_request.1", "compliance_request.4"]
        assert found.pending_verification == ["compliance_request.2"]
        assert found.past_due == ["compliance_request.3"]
        assert found.errors[0].message == "Cut off."
        assert found.current_deadline == DUE

    def test_each_proof_has_its_place(self) -> None:
        known = Facts("verified", None, bank_active=True, proofs=((7, "requested"), (8, "submitted"), (9, "rejected")))
        found = readiness.requirements(row(), known)
        assert found.currently_due == ["proof.7", "proof.9"]
        assert found.pending_verification == ["proof.8"]
        assert [problem.code for problem in found.errors] == ["proof_rejected"]

    def test_what_is_being_checked_is_not_due(self) -> None:
        found = readiness.requirements(
            row(status="pending", kyc_status="pending"), Facts("processing", bank_pending=True)
        )
        assert found.currently_due == []
        assert found.pending_verification == ["identity_verification", "bank_account"]
        assert found.disabled_reason == "requirements_pending_verification"

    @given(rows, known)
    def test_an_account_activates_only_with_nothing_due(self, account: dict[str, Any], facts: Facts) -> None:
        if readiness.may_activate(account, facts):
            found = readiness.requirements(account, facts)
            assert "identity_verification" not in found.currently_due + found.pending_verification
            assert "bank_account" not in found.currently_due + found.pending_verification
            assert not any(case.blocks for case in facts.cases)


class TestCapabilities:
    @given(rows, known)
    def test_they_say_what_the_gates_do(self, account: dict[str, Any], facts: Facts) -> None:
        """A capability is active exactly when the request path lets such writes through (payouts also need a bank)."""
        found = readiness.capabilities(account, facts)
        assert (found.payments == "active") == _admitted(account, Gate.PAYMENTS)
        assert (found.payouts == "active") == (_admitted(account, Gate.TRANSFERS) and facts.bank_active)
        assert found.disburse == found.trade == found.issuing == "inactive"

    def test_staff_grant_and_withhold(self) -> None:
        granted = row(capabilities={"disburse": "active", "terminal": "inactive", "trade": "pending"})
        found = readiness.capabilities(granted, READY)
        assert (found.disburse, found.terminal, found.trade, found.payments) == (
            "active",
            "inactive",
            "pending",
            "active",
        )
        banned = readiness.capabilities(granted | {"status": "banned"}, READY)
        assert set(msgspec.to_builtins(banned).values()) == {"inactive"}


def _admitted(account: dict[str, Any], gate: Gate) -> bool:
    from types import SimpleNamespace

    from bursar.core.errors import ApiError

    try:
        admit(SimpleNamespace(**account), gate)  # type: ignore[arg-type]
    except ApiError:
        return False
    return True
