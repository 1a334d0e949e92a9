-- Rows that are written many at a time come as one array of rows, each of the type `new_<table>` (`db/rows.py`).

CREATE TYPE new_idempotency_key AS (
    account_id   bigint,
    family       text,
    scope        text,
    key          text,
    fingerprint  bytea,
    status       smallint,
    headers      text,
    body         bytea,
    created_at   timestamptz,
    expires_at   timestamptz
);

CREATE TYPE new_event AS (
    account_id   bigint,
    event_id     text,
    type         text,
    platform_id  bigint,
    body         bytea,
    created_at   timestamptz,
    audience     text
);

CREATE TYPE new_payment AS (
    account_id             bigint,
    id                     bigint,
    kind                   text,
    channel                text,
    payment_reference      text,
    identifier             text,
    amount_minor           bigint,
    currency               text,
    details                text,
    ipn_url                text,
    success_url            text,
    cancel_url             text,
    customer_name          text,
    customer_email         text,
    customer_phone         text,
    metadata               jsonb,
    link_id                bigint,
    key_account_id         bigint,
    key_id                 bigint,
    platform_id            bigint,
    fee_payer              text,
    application_fee_minor  bigint,
    expires_at             timestamptz,
    created_at             timestamptz
);

CREATE TYPE new_payment_link AS (
    account_id             bigint,
    id                     bigint,
    reference              text,
    amount_minor           bigint,
    currency               text,
    details                text,
    ipn_url                text,
    success_url            text,
    cancel_url             text,
    customer_name          text,
    customer_email         text,
    metadata               jsonb,
    application_fee_minor  bigint,
    max_payments           integer,
    key_account_id         bigint,
    key_id                 bigint,
    expires_at             timestamptz,
    created_at             timestamptz
);

-- The time and the ids of a batch, in a transaction of their own. It is not worth a flush: whatever uses the ids is
-- committed after it, and that flush covers both.
CREATE FUNCTION batch_draw(p_sequence regclass, p_count integer, OUT moment timestamptz, OUT ids bigint[])
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT now() + i.clock_offset INTO moment FROM instance i;  -- instance_now(), without a plan of its own each time
    FOR n IN 1..p_count LOOP  -- which needs no plan, as a query over generate_series would, at every call
        ids[n] := nextval(p_sequence);
    END LOOP;
END
$$;
