-- Notices are made from events, each once, and written when they are about to be sent; and what is done is found by
-- its age, so that it can be removed without looking at anything else.

-- Notices -------------------------------------------------------------------------------------------------------

ALTER TABLE notice
    ADD COLUMN event_id text COLLATE "C",  -- what it tells of; `template` is that event's type
    ALTER COLUMN recipient DROP NOT NULL,  -- unknown until it is written
    ALTER COLUMN subject DROP NOT NULL,
    ALTER COLUMN body_text DROP NOT NULL,
    ALTER COLUMN message_id DROP NOT NULL,
    ADD CONSTRAINT notice_written_whole CHECK (num_nulls(recipient, subject, body_text, message_id) IN (0, 4)),
    ADD CONSTRAINT notice_written_first CHECK (recipient IS NOT NULL OR status IN ('pending', 'failed'));

CREATE UNIQUE INDEX notice_once ON notice (account_id, event_id, channel);
CREATE INDEX notice_by_recipient ON notice (recipient, id);

-- What is done, by its age --------------------------------------------------------------------------------------
-- The sandbox's fixture (accounts below 1001) has no age.

CREATE INDEX delivery_done ON delivery (updated_at) WHERE next_attempt_at IS NULL AND account_id >= 1001;
CREATE INDEX notice_done ON notice (created_at) WHERE next_attempt_at IS NULL;
CREATE INDEX processor_inbox_done ON processor_inbox (finished_at) WHERE state = 'done';

-- What the service's role may do --------------------------------------------------------------------------------

GRANT DELETE ON ipn, delivery, delivery_attempt, notice, processor_inbox TO bursar_app;
