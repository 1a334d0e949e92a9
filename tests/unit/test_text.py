"""The card-data guard: what it refuses, what it must let pass, and that no input can break it."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.text import (
    MASK,
    MAX_PATHS,
    card_data_paths,
    contains_card_number,
    forbidden_name,
    luhn_valid,
    mask,
    may_contain_forbidden,
    text_problem,
)

CARDS = {
    "Visa": "4242424242424242",
    "Visa 13": "4222222222222",
    "Visa 19": "4000000000000000006",
    "Mastercard": "5555555555554444",
    "Mastercard 2-series": "2223003122003222",
    "American Express": "378282246310005",
    "Discover": "6011111111111117",
    "Discover 65": "6500000000000002",
    "Diners Club": "30569309025904",
    "Diners Club 36": "36227206271667",
    "JCB": "3566002020360505",
    "Maestro": "6759649826438453",
    "Maestro 12": "501800000009",
    "UnionPay": "6200000000000005",
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.decimals() | st.floats(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
digit_texts = st.text("0123456789 -./+aA\u00a0\u2013٣４", max_size=60)


class TestForbiddenName:
    @pytest.mark.parametrize(
        "name",
        [
            *("card_number", "cardNumber", "CARD-NUMBER", "card[number]", "card.number", "Card Number", "cardnumber"),
            *("pan", "cc_number", "credit_card_number", "customerCardNumber", "payment_card_number", "card_no"),
            *("cvc", "CVV", "cvv2", "card_cvc", "security_code", "card_security_code", "ｃｖｃ", "c\u200bvc"),
            *(
                "expiry",
                "exp_month",
                "exp-year",
                "expiry_date",
                "card_expiry",
                "expirationDate",
                "credit_card_exp_year",
            ),
            *("pin", "PIN", "card_pin", "pin_block", "customer_pin"),
            *("track_data", "track1", "Track2Data", "magstripe"),
            *("secret_key", "secretKey", "access_token", "password", "client_secret", "api_key", "bank_credentials"),
            *("user_password", "Authorization", "private_key"),
        ],
    )
    def test_refuses(self, name: str) -> None:
        assert forbidden_name(name)

    @pytest.mark.parametrize(
        "name",
        [
            *("amount", "currency", "identifier", "account_number", "account_name", "sort_code", "iban", "bank_name"),
            *("expires_at", "expires_in", "valid_until", "starts_at", "expected_assignment", "payment_expiry"),
            *("card", "pricing.card", "card_fixed_fee", "card_percent_fee", "keyed_fixed_fee", "keyed_percent_fee"),
            *("card_origin", "manual_keyed", "card_read_method", "issuing", "cards", "gift_card_number"),
            *("membership_card_number", "public_key", "client_key", "X-Service-Public-Key", "idempotency_key"),
            *("registration_code", "postcode", "country_code", "product_code", "code", "mobile_code", "number"),
            *("tracking_number", "shipping_tracking_number", "track_inventory", "tracking", "company"),
            *("spin", "pins", "opinion", "shipping", "discount_code", "offer_code", "po_number", "invoice_number"),
            *("company_registration_number", "token", "page_token", "next_cursor", "last4", "card_last4", "brand"),
            *("", "_", "\x00", "\ud800", "月"),
        ],
    )
    def test_lets_pass(self, name: str) -> None:
        assert not forbidden_name(name)

    def test_punctuation_does_not_hide_a_name_of_any_length(self) -> None:
        assert forbidden_name("card" + "_" * 100_000 + "number")

    @given(st.text())
    def test_never_raises_and_always_agrees_with_itself(self, name: str) -> None:
        assert forbidden_name(name) == forbidden_name(name)
        assert forbidden_name(f"_{name}-") == forbidden_name(name)


class TestContainsCardNumber:
    @pytest.mark.parametrize("number", CARDS.values(), ids=CARDS)
    def test_knows_the_brands(self, number: str) -> None:
        assert contains_card_number(number)
        assert contains_card_number(f"please charge {number}, thanks")

    @pytest.mark.parametrize(
        "text",
        [
            *("4242 4242 4242 4242", "4242-4242-4242-4242", "3782 822463 10005", "4242\u00a04242\u00a04242\u00a04242"),
            *("4242–4242–4242–4242", "４２４２４２４２４２４２４２４２", "4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2."),
            *("card:4242424242424242", "PAN4242424242424242exp", "card-4242424242424242", "(4242424242424242)"),
            *(
                "4242 4242 4242 4242 12/26 123",
                "12/26 4242 4242 4242 4242",
                "4242424242424242 123",
                "4242424242424242/12",
            ),
            *("+4242424242424242", "4242424242424242.00", "no.4242424242424242", "a\n4242424242424242\nb"),
        ],
    )
    def test_however_people_write_them(self, text: str) -> None:
        assert contains_card_number(text)

    @pytest.mark.parametrize(
        "text",
        [
            *("", "4242", "4242424242424241", "1234567890123456", "0000000000000000", "424242424242424"),
            *("14242424242424242", "42424242424242420", "99994242424242424242", "4242  4242  4242  4242"),
            *("2025-01-01T10:00:00Z", "1735689600000", "1735689600000000", "20250101123456"),
            *("+4915112345678", "+44 7911 123456", "30-00-00 12345678", "0.4242424242424242", "12.4242424242424242"),
            *("DK5000400440116243", "GB29 NWBK 6016 1331 9268 19", "DE89 3704 0044 0532 0130 00"),
            *("42424242-4242-4242-abcd-000000000000", "9f86d081884c7d659a2f4242424242424242abcdef"),
        ],
    )
    def test_lets_other_numbers_pass(self, text: str) -> None:
        assert not contains_card_number(text)

    def test_a_valid_iban_is_not_a_card_number_though_its_digits_pass_for_one(self) -> None:
        digits = "4400000000000008"  # a Visa number by itself
        assert contains_card_number(digits)
        valid = [
            f"{first}{second}" for first in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" for second in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        ]
        spared = [country for country in valid if not contains_card_number(country + digits)]
        assert 0 < len(spared) < 20
        spaced = " ".join(f"{spared[0]}{digits}"[i : i + 4] for i in range(0, 18, 4))
        assert not contains_card_number(f"IBAN {spaced} please")

    @given(st.sampled_from(list(CARDS.values())), st.integers(0, 18), st.integers(1, 9))
    def test_one_wrong_digit_is_no_card_number(self, number: str, position: int, shift: int) -> None:
        at = position % len(number)
        wrong = number[:at] + str((int(number[at]) + shift) % 10) + number[at + 1 :]
        assert not luhn_valid(wrong)
        assert not contains_card_number(wrong)

    @pytest.mark.parametrize("piece", ["1", "1 ", "a1", "1.", "+1 ", "1/", "12345678-", "deadbee-", "é", "٣ "])
    def test_is_linear_in_the_length(self, piece: str) -> None:
        contains_card_number(piece * 100_000)

    @given(digit_texts | st.text())
    def test_never_raises(self, text: str) -> None:
        assert contains_card_number(text) in {True, False}

    def test_a_text_of_nothing_but_such_numbers_counts_as_cards(self) -> None:
        assert not contains_card_number("4111111111111112 " * 2000)
        assert contains_card_number("4111111111111112 " * 2001)
        assert mask("4111111111111112 " * 2001 + "0").endswith(f"4111111111111112 {MASK}")


class TestMayContainForbidden:
    def test_rules_out_ordinary_bodies(self) -> None:
        body = {"identifier": "ORDER-1001", "amount": 10.50, "at": "2025-01-01T10:00:00Z", "mobile": "07911123456"}
        assert not may_contain_forbidden(json.dumps(body).encode())

    @pytest.mark.parametrize(
        "raw",
        [
            b'{"note":"4242 4242 4242 4242"}',
            b'{"note":4242424242424242}',
            b'{"note":424242.4242424242e10}',
            b'{"note":"\\u0034242424242424242"}',
            '{"note":"４２４２４２４２４２４２４２４２"}'.encode(),
        ],
    )
    def test_lets_nothing_slip(self, raw: bytes) -> None:
        assert may_contain_forbidden(raw)

    @given(digit_texts | st.sampled_from(list(CARDS.values())), st.booleans())
    def test_is_never_wrong_when_it_says_no(self, text: str, ascii_only: bool) -> None:
        raw = json.dumps({"note": text}, ensure_ascii=ascii_only).encode()
        assert may_contain_forbidden(raw) or not contains_card_number(text)

    @given(st.from_regex(r"\A-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?\Z"))
    def test_is_never_wrong_about_numbers(self, number: str) -> None:
        tree = json.loads(number, parse_float=Decimal)
        assert may_contain_forbidden(number.encode()) or not card_data_paths(tree)


class TestCardDataPaths:
    def test_an_ordinary_body_has_none(self) -> None:
        body = {
            "amount": Decimal("10.50"),
            "identifier": "ORDER-1001",
            "pricing": {"card": {"fixed": "0.20", "percent": "1.50"}},
            "bank": {"account_number": "12345678", "sort_code": "200000", "iban": "GB29NWBK60161331926819"},
            "items": [{"quantity": 1, "paid": True, "note": None}],
        }
        assert card_data_paths(body) == []

    def test_names_and_values_by_their_path_shallowest_first(self) -> None:
        body = {
            "items": [{"cvc": "123"}, {"note": "4242 4242 4242 4242"}],
            "reference": 4242424242424242,
            "metadata": {"deep": [[Decimal(4242424242424242)]]},
        }
        assert card_data_paths(body) == ["reference", "items.0.cvc", "items.1.note", "metadata.deep.0.0"]

    def test_values_may_be_skipped_names_never(self) -> None:
        body = {"note": "4242424242424242", "cvc": None}
        assert card_data_paths(body, values=False) == ["cvc"]

    def test_plain_words_are_a_cards_inside_a_card(self) -> None:
        assert card_data_paths({"card": {"number": "x", "exp": "y"}}) == ["card.number", "card.exp"]
        assert card_data_paths({"cards": [1], "creditCard": [{"number": 1}]}) == ["creditCard.0.number"]
        assert card_data_paths({"invoice": {"number": "INV-1"}, "number": 5}) == []
        assert card_data_paths({"card": {"address": {"number": 5}}}) == []

    def test_a_card_number_as_a_name_is_found_and_not_shown(self) -> None:
        assert card_data_paths({"metadata": {"4242424242424242": "x"}}) == [f"metadata.{MASK}"]

    def test_the_service_s_own_secrets_are_refused_and_not_shown(self) -> None:
        secrets = [f"{kind}_{'aB3' * 6}" for kind in ("sk_live", "sk_test", "rk_live", "rk_test", "whsec")]
        for secret in secrets:
            assert card_data_paths({"note": f"my key is {secret}."}) == ["note"]
            assert card_data_paths({secret: 1}) == [MASK]
            assert may_contain_forbidden(json.dumps({"note": secret}).encode())
        assert card_data_paths({"note": "a key starts with sk_live_ and whsec_"}) == []

    def test_a_bare_value_has_the_empty_path(self) -> None:
        assert card_data_paths("4242424242424242") == [""]
        assert card_data_paths("hello") == card_data_paths(None) == card_data_paths([]) == []

    def test_paths_can_be_shown_whatever_the_names(self) -> None:
        [path] = card_data_paths({"\ud800" + "x" * 10_000: {"pin": 1}})
        assert len(path.encode()) < 100
        assert path.endswith(".pin")

    def test_reports_a_bounded_number(self) -> None:
        assert len(card_data_paths([{"cvc": 1}] * 1000)) == MAX_PATHS

    def test_survives_any_depth(self) -> None:
        tree: object = {"cvc": 1}
        for _ in range(50_000):
            tree = [tree]
        [path] = card_data_paths(tree)
        assert path.endswith(".0.cvc")

    def test_survives_numbers_of_any_size(self) -> None:
        assert card_data_paths([10**10_000, -(10**10_000), Decimal("1e999999"), float("nan"), 1e300]) == []

    @given(json_values)
    def test_never_raises(self, tree: object) -> None:
        assert len(card_data_paths(tree)) <= MAX_PATHS

    @given(json_values)
    def test_finds_what_is_planted_anywhere(self, tree: object) -> None:
        assert card_data_paths({"tree": {"card_number": tree}}) == ["tree.card_number"]


class TestTextProblem:
    def test_text_that_postgresql_cannot_hold(self) -> None:
        assert text_problem("a\x00b") == "must not contain NUL characters"
        assert text_problem("a\ud800b") == "must be valid Unicode text"

    @given(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])))
    def test_all_other_text_is_fine(self, text: str) -> None:
        assert text_problem(text) is None


class TestMask:
    @pytest.mark.parametrize(
        ("text", "masked"),
        [
            ("nothing to hide", "nothing to hide"),
            ("pay 4242 4242 4242 4242 now", f"pay {MASK} now"),
            ("4242424242424242 12/26 123", f"{MASK} 12/26 123"),
            ("4242424242424242,5555555555554444", f"{MASK},{MASK}"),
            ("Bearer sk_live_Abc123", f"Bearer {MASK}"),
            ("key=sk_test_Abc123&x=1", f"key={MASK}&x=1"),
            ("rk_live_Abc and whsec_a+b/c= end", f"{MASK} and {MASK} end"),
            ("sk_live_4242424242424242ab", MASK),
            ("pk_live_Abc123 is public", "pk_live_Abc123 is public"),
        ],
    )
    def test_hides_card_numbers_and_secrets(self, text: str, masked: str) -> None:
        assert mask(text) == masked

    @given(st.text(), st.sampled_from(["sk_live_s3cret", "rk_test_s3cret", "whsec_s3cret", "4242424242424242"]))
    def test_a_secret_never_survives(self, text: str, secret: str) -> None:
        assert secret not in mask(f"{text}\n{secret}\n{text}")

    @given(digit_texts | st.text())
    def test_never_raises_and_changes_nothing_else(self, text: str) -> None:
        masked = mask(text)
        if masked == text:
            assert not contains_card_number(text)
