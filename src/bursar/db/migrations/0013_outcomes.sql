-- What outcomes of payments write, as arrays of rows like those of 0011.

CREATE TYPE new_payment_attempt AS (
    account_id    bigint,
    payment_id    bigint,
    n             integer,
    reference     text,
    status        text,
    error_code    text,
    decline_code  text,
    message       text,
    holder        text,
    last4         text,
    at            timestamptz
);

CREATE TYPE new_ipn AS (
    account_id      bigint,
    event_id        text,
    type            text,
    url             text,
    fields          jsonb,
    amount          text,
    identifier      text,
    key_account_id  bigint,
    key_id          bigint,
    created_at      timestamptz
);

-- What an outcome may change of a payment.
CREATE TYPE payment_outcome AS (
    account_id           bigint,
    id                   bigint,
    status               text,
    processor_reference  text,
    started_at           timestamptz,
    attempts             integer,
    fee_minor            bigint,
    paid_at              timestamptz,
    closing              text,
    due_at               timestamptz
);
