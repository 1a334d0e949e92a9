"""What a platform declares of a merchant it connects, and what it may change later.

Each rule is a validator of the field it is about, looking at the fields before it, so that one reply can name every
bad field at once.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import date
from decimal import Decimal
from ipaddress import ip_address
from typing import Annotated, Any, Literal

from email_validator import EmailNotValidError, validate_email
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationInfo, field_validator

from bursar.core.clock import real_now
from bursar.features.accounts import countries
from bursar.features.accounts.schemas import AccountStatus, ConnectStatus, KycStatus
from bursar.http.schemas import Body, DayOrMoment, IsoDate, IsoMoment, Metadata, PageQuery

ADULT_YEARS = 18
OLDEST_YEARS = 120
OWNERS_LARGEST = 20
SIGNATURE_LARGEST = 512 * 1024
PNG = b"\x89PNG\r\n\x1a\n"
ABSENT: Any = None  # the default of a field that may be left out but not be null


def _printable(value: str) -> str:
    if any(ord(char) < 32 or ord(char) == 127 for char in value):
        raise ValueError("must not contain control characters")
    return value


def _email(value: str) -> str:
    try:
        return validate_email(value, check_deliverability=False, test_environment=True).normalized
    except EmailNotValidError:
        raise ValueError("must be an e-mail address") from None


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _supported(code: str) -> str:
    if code not in countries.SUPPORTED:
        raise ValueError("must be the two-letter code of a supported country")
    return code


def _country(code: str) -> str:
    if not countries.is_country(code):
        raise ValueError("must be a two-letter country code")
    return code


def _years_ago(born: date) -> int:
    today = real_now().date()
    return today.year - born.year - ((today.month, today.day) < (born.month, born.day))


def _past(born: date) -> date:
    if not 0 <= _years_ago(born) <= OLDEST_YEARS or born > real_now().date():
        raise ValueError("must be a date of birth in the past")
    return born


def _adult(born: date) -> date:
    if _years_ago(_past(born)) < ADULT_YEARS:
        raise ValueError(f"must be at least {ADULT_YEARS} years ago")
    return born


def _address(value: str) -> str:
    try:
        if "%" in value:
            raise ValueError
        return str(ip_address(value))
    except ValueError:
        raise ValueError("must be an IPv4 or IPv6 address") from None


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise ValueError("must be a number")
    return Decimal(value)


def _png(value: str) -> str:
    encoded = value.removeprefix("data:image/png;base64,")
    if len(encoded) > SIGNATURE_LARGEST * 4 // 3 + 4:
        raise ValueError("must be at most 512 KB")
    try:
        content = base64.b64decode(re.sub(r"\s", "", encoded), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("must be base64") from None
    if not content.startswith(PNG):
        raise ValueError("must be a PNG image")
    return encoded


def _true(value: bool) -> bool:
    if not value:
        raise ValueError("must be true: without acceptance no account is created")
    return value


def _handle(value: Any) -> Any:
    return "neropay" if value == "service" else value


Line = Annotated[str, StringConstraints(min_length=1, max_length=190), AfterValidator(_printable)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=5000)]
Short = Annotated[str, StringConstraints(min_length=1, max_length=32), AfterValidator(_printable)]
Mail = Annotated[str, StringConstraints(min_length=3, max_length=190), AfterValidator(_email)]
SupportedCountry = Annotated[str, BeforeValidator(_upper), AfterValidator(_supported)]
Country = Annotated[str, BeforeValidator(_upper), AfterValidator(_country)]
Share = Annotated[Decimal, BeforeValidator(_number), Field(ge=0, le=100, decimal_places=2)]
Handle = Annotated[Literal["neropay", "platform"], BeforeValidator(_handle)]
Industry = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 &/_.,-]{1,63}$")]


class Owner(Body):
    """A further natural person behind the company."""

    first_name: Line
    last_name: Line
    email: Mail
    dob: Annotated[IsoDate, AfterValidator(_past)]
    is_owner: bool = False
    is_director: bool = False
    is_executive: bool = False
    percent_ownership: Share | None = Field(None, validate_default=True)

    @field_validator("percent_ownership")
    @classmethod
    def _share_of_an_owner(cls, share: Decimal | None, info: ValidationInfo) -> Decimal | None:
        if info.data.get("is_owner") and not share:
            raise ValueError("is needed for an owner")
        return share


class NewConnectedAccount(Body):
    business_company_name: Line = Field(description="Company or trading name.")
    firstname: Line = Field(description="First name of the authorised representative.")
    lastname: Line
    email: Mail
    country_code: SupportedCountry = Field(description="Two-letter code of the merchant's country.")
    mobile_code: str = Field(max_length=8, description="Dial code of that country, for example +44.")
    mobile: str = Field(max_length=32)
    business_type: Literal["company", "individual", "sole_trader"]
    nationality: Country
    company_registration_number: Short | None = Field(None, validate_default=True, description="Needed for a company.")
    representative_job_title: Line
    rep_is_director: bool
    rep_is_executive: bool
    rep_is_owner: bool
    rep_ownership_percent: Share | None = Field(
        None, validate_default=True, description="25 to 100; needed when the representative is an owner."
    )
    company_declaration: bool
    address: Line
    city: Line
    postcode: Short
    dob: Annotated[IsoDate, AfterValidator(_adult)] = Field(description="The representative's date of birth.")
    industry: Industry = Field(description="Merchant category code, or a name of the industry.")
    merchant_website_or_product_description: Text
    terms_accepted: Annotated[bool, AfterValidator(_true)]
    terms_accepted_at: IsoMoment
    terms_ip: Annotated[str, AfterValidator(_address)] = Field(description="Address the terms were accepted from.")
    legal_name: Line = Field(description="Drawn as a typed signature when no image is sent.")
    signature_png_base64: Annotated[str, AfterValidator(_png)] | None = None
    connect_email_sms_handle: Handle = "neropay"
    metadata: Metadata = Field(default_factory=dict)
    company_has_other_owners: bool | None = None
    owners: Annotated[list[Owner], Field(max_length=OWNERS_LARGEST)] = Field(
        default_factory=list, validate_default=True, description="Further owners, directors and executives."
    )

    @property
    def signature(self) -> bytes | None:
        return base64.b64decode(self.signature_png_base64) if self.signature_png_base64 else None

    @field_validator("mobile_code")
    @classmethod
    def _dial_code_of_the_country(cls, code: str, info: ValidationInfo) -> str:
        digits = code.removeprefix("+").removeprefix("00")
        country = info.data.get("country_code")
        if not re.fullmatch(r"[0-9]{1,4}", digits, re.ASCII):
            raise ValueError("must be a dial code such as +44")
        if country and int(digits) != countries.dial_code(country):
            raise ValueError(f"must be the dial code of {country}, +{countries.dial_code(country)}")
        return f"+{digits}"

    @field_validator("mobile")
    @classmethod
    def _number_of_the_country(cls, number: str, info: ValidationInfo) -> str:
        country = info.data.get("country_code")
        if country is None:
            return number  # nothing to hold it against; the country itself is named
        found = countries.telephone(country, number)
        if found is None:
            raise ValueError(f"must be a telephone number of {country}")
        return found

    @field_validator("company_registration_number")
    @classmethod
    def _number_of_a_company(cls, number: str | None, info: ValidationInfo) -> str | None:
        if number is None and info.data.get("business_type") == "company":
            raise ValueError("is needed for a company")
        return number

    @field_validator("rep_ownership_percent")
    @classmethod
    def _share_of_an_owner(cls, share: Decimal | None, info: ValidationInfo) -> Decimal | None:
        if info.data.get("rep_is_owner") is False:
            return None
        if info.data.get("rep_is_owner") and (share is None or not 25 <= share <= 100):
            raise ValueError("must be between 25 and 100 when the representative is an owner")
        return share

    @field_validator("owners")
    @classmethod
    def _further_persons(cls, owners: list[Owner], info: ValidationInfo) -> list[Owner]:
        declared = info.data.get("company_has_other_owners")
        if owners and declared is False:
            raise ValueError("must be empty when company_has_other_owners is false")
        if declared and not owners:
            raise ValueError("must name at least one person when company_has_other_owners is true")
        seen = {str(info.data.get("email", "")).lower()}
        for position, owner in enumerate(owners):
            if owner.email.lower() in seen:
                raise ValueError(
                    f"entry {position}: the e-mail address must differ from the account's and the other owners'"
                )
            seen.add(owner.email.lower())
        shares = sum((owner.percent_ownership or Decimal(0) for owner in owners), Decimal(0))
        if shares + (info.data.get("rep_ownership_percent") or 0) > 100:
            raise ValueError("shares add up to more than 100 percent")
        return owners


class ConnectedAccountChanges(Body):
    """Fields that are left out stay as they are."""

    business_company_name: Line = ABSENT
    mobile: Annotated[str, StringConstraints(min_length=1, max_length=32)] = ABSENT
    connect_email_sms_handle: Handle = ABSENT
    connect_status: ConnectStatus = ABSENT
    metadata: Metadata = ABSENT


class ConnectedAccountQuery(PageQuery):
    status: AccountStatus | None = None
    kyc_status: KycStatus | None = None
    connect_status: ConnectStatus | None = None
    q: str | None = Field(None, max_length=190, description="Part of the name, e-mail address or id; also as search.")
    search: str | None = Field(None, max_length=190, description="Alias of q.")
    since: DayOrMoment = Field(None, alias="from", description="First day (in London) or moment of creation.")
    until: DayOrMoment = Field(None, alias="to", description="Last day (in London) or moment of creation.")
