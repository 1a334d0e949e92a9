"""The card-data guard: field names and values that must never enter the service, nor its logs.

Names are refused whatever they hold; values only where a whole group of digits is a plausible card number, or where one
of the service's own secrets stands.
Also says which text the database cannot hold. What to answer to a refused body is the caller's business.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from enum import Enum, auto
from functools import lru_cache
from typing import Final, TypeAlias
from unicodedata import normalize

MASK: Final = "[masked]"

# A hostile body may hold a forbidden name ten thousand times; an error need show only some.
MAX_PATHS: Final = 20

_MAX_SEGMENT_CHARS: Final = 64

# --- Names: compared in lower case and without punctuation, so `cardNumber` and `card[number]` are one.


def _words(*lists: str) -> frozenset[str]:
    return frozenset(" ".join(lists).split())


_CARD_NUMBER = "cardnumber cardno cardnum cardpan pan pannumber ccnumber ccnum ccno primaryaccountnumber"
_SECURITY_CODE = (
    "cvc cvc1 cvc2 cvv cvv1 cvv2 cvn cvn2 csc cvccode cvvcode cvcnumber cvvnumber cardcvc cardcvc2 cardcvv "
    "cardcvv2 cardcsc cardcode cccvc cccvv securitycode cardsecuritycode cardverificationcode "
    "cardverificationvalue cardverificationnumber"
)
_CARD_EXPIRY = (
    "cardexp cardexpdate cardexpmonth cardexpyear cardexpires cardexpiry cardexpirydate cardexpirymonth "
    "cardexpiryyear cardexpiration cardexpirationdate cardexpirationmonth cardexpirationyear "
    "ccexp ccexpiry ccexpmonth ccexpyear"
)
_PIN = "pin pinnumber pinblock pindata cardpin encryptedpin encryptedpinblock"
_TRACK_DATA = (
    "trackdata track1 track2 track3 track1data track2data track3data track2equivalent track2equivalentdata "
    "magstripe magstripedata magneticstripe emvdata iccdata"
)
_CREDENTIALS = (
    "secret secretkey testsecretkey livesecretkey clientsecret apisecret appsecret webhooksecret signingsecret "
    "sharedsecret secrettoken apikey apisecretkey privatekey signingkey encryptionkey "
    "accesstoken refreshtoken authtoken bearertoken sessiontoken idtoken apitoken authorization bearer "
    "password passwd pwd passphrase passcode passwordhash passwordconfirmation confirmpassword "
    "currentpassword newpassword oldpassword credential credentials bankcredential bankcredentials banklogin "
    "bankusername onlinebankingusername onlinebankingpassword onlinebankingpin memorableword"
)
_FORBIDDEN: Final = _words(_CARD_NUMBER, _SECURITY_CODE, _CARD_EXPIRY, _PIN, _TRACK_DATA, _CREDENTIALS)

# Words that only say whose it is. 'gift' or 'membership' make it another kind of card, so are not here.
_QUALIFIERS: Final = re.compile(
    r"(?:payment|credit|debit|bank|customer|client|buyer|payer|cardholder|holder|billing|raw|full|user)+"
)

# A card's when they stand alone; but a `payment_expiry` or a `billing_pincode` is something else.
_FORBIDDEN_ALONE: Final = _words(
    "expiry expirydate expirymonth expiryyear expiration expirationdate expirationmonth expirationyear",
    "expdate expmonth expyear pincode",
)

# A card's only inside an object that is named after one.
_CARD_OBJECTS: Final = _words("card carddetails carddata cardinfo creditcard debitcard paymentcard bankcard")
_CARD_PARTS: Final = _words("number no num exp expires month year verificationcode verificationvalue")

# --- Values.

# (lowest prefix, highest prefix, lengths)
_BRANDS: Final[tuple[tuple[str, str, range | tuple[int, ...]], ...]] = (
    ("4", "4", (13, 16, 19)),  # Visa
    ("51", "55", (16,)),  # Mastercard
    ("2221", "2720", (16,)),  # Mastercard
    ("34", "34", (15,)),  # American Express
    ("37", "37", (15,)),  # American Express
    ("6011", "6011", range(16, 20)),  # Discover
    ("644", "649", range(16, 20)),  # Discover
    ("65", "65", range(16, 20)),  # Discover
    ("300", "305", (14, 16)),  # Diners Club
    ("3095", "3095", (14, 16)),  # Diners Club
    ("36", "36", (14, 16)),  # Diners Club
    ("38", "39", (14, 16)),  # Diners Club
    ("3528", "3589", range(16, 20)),  # JCB
    ("62", "62", range(16, 20)),  # UnionPay
    ("5018", "5018", range(12, 20)),  # Maestro
    ("5020", "5020", range(12, 20)),  # Maestro
    ("5038", "5038", range(12, 20)),  # Maestro
    ("5893", "5893", range(12, 20)),  # Maestro
    ("6304", "6304", range(12, 20)),  # Maestro
    ("6759", "6759", range(12, 20)),  # Maestro
    ("6761", "6763", range(12, 20)),  # Maestro
)
_PREFIXES: Final = {
    length: tuple((lowest, highest) for lowest, highest, lengths in _BRANDS if length in lengths)
    for length in range(12, 20)
}
_MIN_CARD_DIGITS: Final = 12
_MAX_CARD_DIGITS: Final = 19
_MAX_RUNS: Final = 2000  # a text with more numbers of a card's length is a list of them
_LUHN_DOUBLED: Final = bytes.maketrans(b"0123456789", b"0246813579")
_NOT_DIGITS: Final = {number: None for number in range(128) if not chr(number).isdigit()}

# A space or hyphen of any kind, as pages and word processors write them.
_SEPARATOR = r"[ \u00a0\u2007\u2009\u202f\u2010-\u2015\u2212-]"
_ENOUGH_DIGITS: Final = re.compile(rf"\d(?:{_SEPARATOR}?\d){{{_MIN_CARD_DIGITS - 1}}}")
# The same on raw bytes, and quicker: digits become zeros, and what may stand between them is dropped.
_ENOUGH_ZEROS: Final = b"0" * _MIN_CARD_DIGITS
_DIGITS_TO_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")
_RAW_SEPARATORS: Final = b" -."
_SOLID_RUN: Final = re.compile(rf"\d{{{_MIN_CARD_DIGITS},}}")

# Scanned from left to right: what is plainly something else is passed over, so that its digits form no group.
_DIGITS: Final = re.compile(
    rf"""
      [0-9a-fA-F]{{8}}-(?:[0-9a-fA-F]{{4}}-){{3}}[0-9a-fA-F]{{12}}        # UUID
    | [0-9a-fA-F]{{24,}}                                                  # digest
    | \+[0-9](?:[ -]?[0-9]){{6,14}}(?![ -]?[0-9])                         # international telephone number
    | [0-9]{{2}}-[0-9]{{2}}-[0-9]{{2}}[ -][0-9]{{8}}(?![ -]?[0-9])        # sort code and account number
    | [0-9]{{1,2}}/[0-9]{{2,4}}(?![0-9])                                  # date, as beside a card number
    | [0-9]{{1,9}}\.[0-9]+                                                # decimal fraction
    | (?P<group> \d++ (?: {_SEPARATOR} \d++ )*+ )
    """,
    re.VERBOSE,
)
# What a group ends with when a date or a fraction follows it: `12` of `4242 4242 4242 4242 12/26`.
_ALIEN: Final = re.compile(rf"{_SEPARATOR}[0-9]{{1,2}}\Z")
# An IBAN of 34 digits with a separator after each; nothing longer can be a card number or an IBAN.
_MAX_GROUP_CHARS: Final = 68
_IBAN_HEAD: Final = re.compile(r"[A-Za-z]{2}(?:[0-9]{2} ?[A-Za-z]{4} ?)?\Z")
_IBAN_HEAD_CHARS: Final = 10
_SECRET: Final = re.compile(r"(?:[sr]k_(?:live|test)_|whsec_)[A-Za-z0-9_+/=-]+|\bop_[A-Za-z0-9_-]{32,}")
_WHOLE_SECRET: Final = re.compile(r"(?:[sr]k_(?:live|test)_|whsec_)[A-Za-z0-9+/]{16}")  # not a mere mention of one

_CONTAINERS: Final = (dict, list)

# Where the walk is: the segment and what leads to it.
_Path: TypeAlias = tuple["_Path | None", str]
_Place: TypeAlias = tuple[object, _Path | None, bool]


class _Kind(Enum):
    PLAIN = auto()
    FORBIDDEN = auto()
    CARD_OBJECT = auto()
    CARD_PART = auto()


def forbidden_name(name: str) -> bool:
    """Whether a field of this name would carry card data or a credential, whatever its value."""
    return _kind(name) is _Kind.FORBIDDEN


def contains_card_number(text: str) -> bool:
    """Whether a whole group of digits in the text is a card number by brand, length and check digit."""
    return next(_card_number_spans(text), None) is not None


def is_forbidden(text: str) -> bool:
    """Whether a card number or one of the service's secrets stands in the text."""
    return contains_card_number(text) or ("_" in text and _WHOLE_SECRET.search(text) is not None)


def may_contain_forbidden(raw: bytes) -> bool:
    """A cheap test of a raw JSON body: when False, no string or number in it is a card number or a secret."""
    # Escapes and other scripts could hide digits from this test, so such bodies are always looked at closely.
    return (
        not raw.isascii()
        or (b"\\" in raw and b"\\u" in raw)
        or _ENOUGH_ZEROS in raw.translate(_DIGITS_TO_ZEROS, _RAW_SEPARATORS)
        or b"k_live_" in raw
        or b"k_test_" in raw
        or b"whsec_" in raw
    )


def card_data_paths(tree: object, *, values: bool = True) -> list[str]:
    """Dotted paths of forbidden names, card numbers and secrets in decoded JSON, shallowest first, at most MAX_PATHS.

    Pass `values=False` when `may_contain_forbidden` has ruled them out. Paths are safe to show and to log.
    """
    if values and _is_forbidden_value(tree):
        return [""]
    if not values and isinstance(tree, dict) and _is_plain(tree):
        return []
    return [_dotted(path) for path in _found(tree, values)]


def _found(tree: object, values: bool) -> list[_Path]:
    found: list[_Path] = []
    pending: list[_Place] = [(tree, None, False)]
    for node, path, in_card in pending:  # grows as it is walked, so that depth costs no stack
        if isinstance(node, dict):
            for name, value in node.items():
                kind = _kind(name)
                refused = kind is _Kind.FORBIDDEN or (in_card and kind is _Kind.CARD_PART)
                if refused or (values and (_is_forbidden_value(name) or _is_forbidden_value(value))):
                    found.append((path, name))
                elif isinstance(value, _CONTAINERS):
                    pending.append((value, (path, name), kind is _Kind.CARD_OBJECT))
        elif isinstance(node, list):
            for index, value in enumerate(node):
                if isinstance(value, _CONTAINERS):
                    pending.append((value, (path, str(index)), in_card))
                elif values and _is_forbidden_value(value):
                    found.append((path, str(index)))
        if len(found) >= MAX_PATHS:
            break
    return found[:MAX_PATHS]


def text_problem(text: str) -> str | None:
    """Why PostgreSQL could not hold the text, or None."""
    if "\x00" in text:
        return "must not contain NUL characters"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "must be valid Unicode text"
    return None


def mask(text: str) -> str:
    """The text with card numbers and the service's secrets replaced by a fixed mark, for logs."""
    text = _SECRET.sub(MASK, text)
    pieces: list[str] = []
    position = 0
    for start, end in _card_number_spans(text):
        pieces += (text[position:start], MASK)
        position = end
    return "".join((*pieces, text[position:]))


def _kind(name: str) -> _Kind:
    # Callers choose the names, so long ones are kept out of the cache.
    return _cached_kind(name) if len(name) <= _MAX_SEGMENT_CHARS else _judge(name)


def _judge(name: str) -> _Kind:
    compact = re.sub(r"[\W_]+", "", normalize("NFKC", name).casefold())
    if compact in _FORBIDDEN or compact in _FORBIDDEN_ALONE:
        return _Kind.FORBIDDEN
    qualifiers = _QUALIFIERS.match(compact)
    if qualifiers and compact[qualifiers.end() :] in _FORBIDDEN:
        return _Kind.FORBIDDEN
    if compact in _CARD_OBJECTS:
        return _Kind.CARD_OBJECT
    return _Kind.CARD_PART if compact in _CARD_PARTS else _Kind.PLAIN


_cached_kind = lru_cache(maxsize=4096)(_judge)


def _is_plain(tree: dict[str, object]) -> bool:
    """Whether an object holds no other, and no name that could be a card's: as nearly all bodies do."""
    if len(tree) > 32 or sum(map(len, tree)) > 512 or not _are_plain(tuple(tree)):  # nothing large in the cache
        return False
    for value in tree.values():  # noqa: SIM110 - a generator would cost as much as all the rest
        if isinstance(value, _CONTAINERS):
            return False
    return True


@lru_cache(maxsize=1024)
def _are_plain(names: tuple[str, ...]) -> bool:
    return all(_judge(name) is _Kind.PLAIN for name in names)


def _is_forbidden_value(value: object) -> bool:
    if isinstance(value, str):
        return is_forbidden(value)
    if isinstance(value, int):  # an integer may be too long to print, a card number is not
        return 10**11 <= value < 10**19 and _is_card_number(str(value))
    return isinstance(value, Decimal | float) and contains_card_number(str(value))


def _card_number_spans(text: str) -> Iterator[tuple[int, int]]:
    if len(text) < _MIN_CARD_DIGITS or _ENOUGH_DIGITS.search(text) is None:
        return
    for start, group in _digit_groups(text):
        if len(group) < _MIN_CARD_DIGITS:
            continue
        digits = _ascii_digits(group) if len(group) <= _MAX_GROUP_CHARS else ""
        if _ends_iban(text[max(0, start - _IBAN_HEAD_CHARS) : start], digits):
            continue
        if _is_card_number(digits):
            yield start, start + len(group)
            continue
        # `4242424242424242 123`: written in one piece, a number is whole whatever stands beside it.
        for count, run in enumerate(_SOLID_RUN.finditer(group)):
            if count >= _MAX_RUNS:
                yield start + run.start(), start + len(group)
                break
            if len(run[0]) <= _MAX_CARD_DIGITS and _is_card_number(_ascii_digits(run[0])):
                yield start + run.start(), start + run.end()


def _digit_groups(text: str) -> Iterator[tuple[int, str]]:
    """Digits that belong together, and where they start."""
    at = 0
    while (match := _DIGITS.search(text, at)) is not None:
        at, group = match.end(), match["group"]
        if group is None:
            continue
        if text[at : at + 1] in ("/", ".") and "0" <= text[at + 1 : at + 2] <= "9" and _ALIEN.search(group[-3:]):
            at -= 1 + group[-2:].isdecimal()
            group = text[match.start() : at - 1]
        yield match.start(), group


def _ascii_digits(group: str) -> str:
    if group.isascii():
        return group.translate(_NOT_DIGITS)
    return "".join(str(int(char)) for char in group if char.isdecimal())


def _is_card_number(digits: str) -> bool:
    prefixes = _PREFIXES.get(len(digits), ())
    return any(lowest <= digits[: len(lowest)] <= highest for lowest, highest in prefixes) and luhn_valid(digits)


def luhn_valid(digits: str) -> bool:
    """Whether the last of the digits is the check digit of the others."""
    raw = digits.encode()
    total = sum(raw[-1::-2]) + sum(raw[-2::-2].translate(_LUHN_DOUBLED)) - ord("0") * len(raw)
    return total % 10 == 0


def _ends_iban(before: str, digits: str) -> bool:
    """Whether the digits are the tail of a valid IBAN: one Danish IBAN in fifty would pass for a card number."""
    head = _IBAN_HEAD.search(before)
    if head is None or not digits:
        return False
    iban = head[0].replace(" ", "") + digits
    return int("".join(str(int(char, 36)) for char in iban[4:] + iban[:4])) % 97 == 1


def _dotted(path: "_Path") -> str:
    segments: list[str] = []
    here: _Path | None = path
    while here is not None:
        here, segment = here
        # A name may itself be a card number, endless, or not even encodable in the reply that shows it.
        segments.append(mask(segment)[:_MAX_SEGMENT_CHARS].encode(errors="replace").decode())
    return ".".join(reversed(segments))
