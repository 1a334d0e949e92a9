"""Connected accounts in the database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from ipaddress import ip_address
from typing import Any

from bursar.db import tallies
from bursar.db.listing import Listing
from bursar.db.pool import Queryable, Record
from bursar.features.accounts.connected_schemas import NewConnectedAccount

CONNECTED = Listing(
    select="SELECT * FROM account",
    scope="platform_id = $1",
    id="account_id",
    sorts={"id": "account_id", "created_at": "created_at"},
    filters={
        "status": "status = {}",
        "kyc_status": "kyc_status = {}",
        "connect_status": "connect_status = {}",
        "since": "created_at >= {}",
        "until": "created_at < {}",
    },
    search=("business_company_name", "email", "public_id"),
    total=tallies.CONNECTED.total(),
)


async def claim_email(db: Queryable, account_id: int, email: str, kind: str) -> bool:
    """Takes the address for this account in the directory; False when it is somebody's address or username."""
    taken = await db.fetchval(
        """
        INSERT INTO directory (kind, value, account_id, id)
        SELECT $3, $1, $2, $2
        WHERE NOT EXISTS (SELECT FROM directory WHERE kind = 'username' AND value = $1)
        ON CONFLICT (kind, value) DO NOTHING
        RETURNING account_id
        """,
        email.lower(),
        account_id,
        kind,
    )
    return taken is not None


async def insert_account(db: Queryable, values: Mapping[str, Any]) -> Record:
    row = await db.fetchrow(
        """
        INSERT INTO account
            (account_id, public_id, kind, platform_id, platform_public_id, business_company_name, email, country_code,
             currency, status, kyc_status, fee_payer, connect_email_sms_handle, application_fee_defaults, metadata,
             public_key, client_key, created_at, updated_at)
        VALUES ($1, $2, 'merchant', $3, $4, $5, $6, $7, $8, 'pending', 'pending', $9, $10, $11, $12, $13, $14, $15, $15)
        RETURNING *
        """,
        *(
            values[name]
            for name in (
                "account_id", "public_id", "platform_id", "platform_public_id", "business_company_name", "email",
                "country_code", "currency", "fee_payer", "connect_email_sms_handle", "application_fee_defaults",
                "metadata", "public_key", "client_key", "now",
            )
        ),
    )  # fmt: skip
    assert row is not None
    return row


async def insert_profile(
    db: Queryable, account_id: int, new: NewConnectedAccount, signature_kind: str, upload_id: int, now: datetime
) -> None:
    await db.execute(
        """
        INSERT INTO account_profile
            (account_id, firstname, lastname, mobile, business_type, nationality, company_registration_number,
             representative_job_title, rep_is_director, rep_is_executive, rep_is_owner, rep_ownership_percent,
             company_declaration, company_has_other_owners, address, city, postcode, dob, industry,
             business_description, terms_accepted_at, terms_ip, legal_name, signature_kind, signature_upload_id,
             created_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
                $23, $24, $25, $26, $26)
        """,
        account_id, new.firstname, new.lastname, new.mobile, new.business_type, new.nationality,
        new.company_registration_number, new.representative_job_title, new.rep_is_director, new.rep_is_executive,
        new.rep_is_owner, new.rep_ownership_percent, new.company_declaration, bool(new.owners), new.address, new.city,
        new.postcode, new.dob, new.industry, new.merchant_website_or_product_description, new.terms_accepted_at,
        ip_address(new.terms_ip), new.legal_name, signature_kind, upload_id, now,
    )  # fmt: skip


async def insert_owners(db: Queryable, account_id: int, new: NewConnectedAccount) -> None:
    if not new.owners:
        return
    await db.execute(
        """
        INSERT INTO account_owner
            (account_id, position, first_name, last_name, email, dob, percent_ownership, is_owner, is_director,
             is_executive)
        SELECT $1, n - 1, first_name, last_name, email, dob, percent, owner, director, executive
        FROM unnest($2::text[], $3::text[], $4::text[], $5::date[], $6::numeric[], $7::boolean[], $8::boolean[],
                    $9::boolean[])
             WITH ORDINALITY AS o (first_name, last_name, email, dob, percent, owner, director, executive, n)
        """,
        account_id,
        *(
            [getattr(owner, name) for owner in new.owners]
            for name in (
                "first_name", "last_name", "email", "dob", "percent_ownership", "is_owner", "is_director",
                "is_executive",
            )
        ),
    )  # fmt: skip


async def lock_connected(db: Queryable, platform_id: int, account_id: int) -> Record | None:
    return await db.fetchrow(
        "SELECT * FROM account WHERE account_id = $1 AND platform_id = $2 FOR NO KEY UPDATE", account_id, platform_id
    )


async def find_connected(db: Queryable, platform_id: int, account_id: int) -> Record | None:
    return await db.fetchrow(
        "SELECT * FROM account WHERE account_id = $1 AND platform_id = $2", account_id, platform_id
    )


async def find_mobile(db: Queryable, account_id: int) -> str | None:
    mobile: str | None = await db.fetchval("SELECT mobile FROM account_profile WHERE account_id = $1", account_id)
    return mobile


async def update_mobile(db: Queryable, account_id: int, mobile: str, now: datetime) -> None:
    await db.execute(
        "UPDATE account_profile SET mobile = $2, updated_at = $3 WHERE account_id = $1", account_id, mobile, now
    )


async def update_connected(db: Queryable, account_id: int, values: Mapping[str, Any], now: datetime) -> Record:
    row = await db.fetchrow(
        """
        UPDATE account
        SET business_company_name = $2, connect_email_sms_handle = $3, connect_status = $4, metadata = $5,
            updated_at = $6
        WHERE account_id = $1
        RETURNING *
        """,
        account_id,
        values["business_company_name"],
        values["connect_email_sms_handle"],
        values["connect_status"],
        values["metadata"],
        now,
    )
    assert row is not None
    return row


async def set_kyc_status(db: Queryable, account_id: int, status: str, now: datetime) -> None:
    await db.execute(
        "UPDATE account SET kyc_status = $2, updated_at = $3 WHERE account_id = $1", account_id, status, now
    )


async def set_active(db: Queryable, account_id: int, now: datetime) -> Record:
    row = await db.fetchrow(
        """
        UPDATE account
        SET status = 'active', activated_at = coalesce(activated_at, $2), updated_at = $2
        WHERE account_id = $1
        RETURNING *
        """,
        account_id,
        now,
    )
    assert row is not None
    return row
