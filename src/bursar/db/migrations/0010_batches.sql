-- Batches that are written in one statement.

-- Raises unless every row of a batch, and its idempotency key, was new: then nothing is written, and whoever sent the
-- batch looks at its rows one by one.
CREATE FUNCTION batch_complete(p_claimed bigint, p_written bigint, p_expected bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_claimed <> p_expected OR p_written <> p_expected THEN
        RAISE EXCEPTION 'a row of the batch is not new' USING ERRCODE = 'BU001';
    END IF;
END
$$;
