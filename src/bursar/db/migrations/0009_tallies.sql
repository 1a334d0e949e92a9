-- How many rows the long lists have, without counting them: what a sweep has counted once, and the few rows since.
--
-- A row carries the number of the transaction that wrote it. The sweep counts only rows of transactions below the
-- snapshot's xmin: those are finished, so none can appear among them later, in whatever order ids become visible.
-- Entries of a wallet need no such number: they are written under its lock, so their seq has no gaps to fill later.

CREATE TABLE tally (
    account_id  bigint NOT NULL,  -- whose list it is; 0: the operator's
    list        text NOT NULL,
    part        text NOT NULL,
    n           bigint NOT NULL CHECK (n >= 0),  -- rows whose stamp (txid or seq) is below `upto`
    upto        bigint NOT NULL,
    PRIMARY KEY (account_id, list, part)
) WITH (fillfactor = 50);
COMMENT ON TABLE tally IS 'tenant: how many rows of a list have been counted, and up to where; short lists have none';

CREATE TABLE tally_mark (
    list     text PRIMARY KEY,
    reached  bigint NOT NULL DEFAULT 0,  -- the last sampled row that was looked at, to learn which lists grow
    horizon  bigint NOT NULL DEFAULT 0   -- the last xmin, to notice that transaction numbers went back
);
COMMENT ON TABLE tally_mark IS 'reference: how far the sweep that counts lists has come';

-- Rows that are already there are of transaction 0: as good as any that is finished.
ALTER TABLE account            ADD COLUMN txid bigint NOT NULL DEFAULT 0;
ALTER TABLE payment            ADD COLUMN txid bigint NOT NULL DEFAULT 0;
ALTER TABLE payment_link       ADD COLUMN txid bigint NOT NULL DEFAULT 0;
ALTER TABLE event              ADD COLUMN txid bigint NOT NULL DEFAULT 0;
ALTER TABLE delivery           ADD COLUMN txid bigint NOT NULL DEFAULT 0;
ALTER TABLE operator_audit     ADD COLUMN txid bigint NOT NULL DEFAULT 0;
ALTER TABLE verification_link  ADD COLUMN txid bigint NOT NULL DEFAULT 0;
ALTER TABLE compliance_request ADD COLUMN txid bigint NOT NULL DEFAULT 0;
ALTER TABLE support_ticket     ADD COLUMN txid bigint NOT NULL DEFAULT 0;
ALTER TABLE account            ALTER COLUMN txid SET DEFAULT pg_current_xact_id()::text::bigint;
ALTER TABLE payment            ALTER COLUMN txid SET DEFAULT pg_current_xact_id()::text::bigint;
ALTER TABLE payment_link       ALTER COLUMN txid SET DEFAULT pg_current_xact_id()::text::bigint;
ALTER TABLE event              ALTER COLUMN txid SET DEFAULT pg_current_xact_id()::text::bigint;
ALTER TABLE delivery           ALTER COLUMN txid SET DEFAULT pg_current_xact_id()::text::bigint;
ALTER TABLE operator_audit     ALTER COLUMN txid SET DEFAULT pg_current_xact_id()::text::bigint;
ALTER TABLE verification_link  ALTER COLUMN txid SET DEFAULT pg_current_xact_id()::text::bigint;
ALTER TABLE compliance_request ALTER COLUMN txid SET DEFAULT pg_current_xact_id()::text::bigint;
ALTER TABLE support_ticket     ALTER COLUMN txid SET DEFAULT pg_current_xact_id()::text::bigint;

-- The rows since: one account's, or all of them where the operator lists all.
CREATE INDEX payment_by_txid ON payment (account_id, txid);
CREATE INDEX payment_link_by_txid ON payment_link (account_id, txid);
CREATE INDEX event_by_txid ON event (account_id, txid);
CREATE INDEX event_by_platform_txid ON event (platform_id, txid) WHERE platform_id IS NOT NULL;
CREATE INDEX delivery_by_txid ON delivery (account_id, txid);
CREATE INDEX account_by_platform_txid ON account (platform_id, txid) WHERE platform_id IS NOT NULL;
CREATE INDEX account_by_txid ON account (txid);
CREATE INDEX operator_audit_by_txid ON operator_audit (txid);
CREATE INDEX verification_link_by_txid ON verification_link (txid);
CREATE INDEX compliance_request_by_txid ON compliance_request (txid);
CREATE INDEX support_ticket_by_txid ON support_ticket (txid);

-- One row in 32: whose list grows by hundreds of rows is sure to be among them.
CREATE INDEX payment_sampled ON payment (id) WHERE id % 32 = 0;
CREATE INDEX payment_link_sampled ON payment_link (id) WHERE id % 32 = 0;
CREATE INDEX event_sampled ON event (id) WHERE id % 32 = 0;
CREATE INDEX delivery_sampled ON delivery (id) WHERE id % 32 = 0;
CREATE INDEX account_sampled ON account (account_id) WHERE account_id % 32 = 0;
CREATE INDEX operator_audit_sampled ON operator_audit (id) WHERE id % 32 = 0;
CREATE INDEX verification_link_sampled ON verification_link (id) WHERE id % 32 = 0;
CREATE INDEX compliance_request_sampled ON compliance_request (id) WHERE id % 32 = 0;
CREATE INDEX support_ticket_sampled ON support_ticket (id) WHERE id % 32 = 0;
CREATE INDEX wallet_entry_sampled ON wallet_entry (id) WHERE seq % 32 = 0;

-- Lists ---------------------------------------------------------------------------------------------------------
-- First pages are as quick of ten million rows as of ten, in every order and by the filters that are used most.

CREATE INDEX payment_by_status ON payment (account_id, status, id);
CREATE INDEX payment_by_email ON payment (account_id, lower(customer_email)) WHERE customer_email IS NOT NULL;
CREATE INDEX wallet_entry_by_time ON wallet_entry (account_id, created_at, id);
CREATE INDEX delivery_not_done ON delivery (account_id, status, id) WHERE status <> 'succeeded';

-- The same key, led by what a list is filtered by; events come in the order of their ids, so it also stays tight.
ALTER TABLE delivery DROP CONSTRAINT delivery_account_id_place_event_id_key, ADD UNIQUE (account_id, event_id, place);

-- With its kind, so that pages far back in a list of hosted payments are found without the rows before them.
ALTER TABLE payment DROP CONSTRAINT payment_pkey, ADD PRIMARY KEY (account_id, id) INCLUDE (kind);

-- As before, but what else there is about an entry is looked up for that entry alone: an EXISTS invites the planner to
-- read all that is unsettled, of everybody, for one page.
CREATE OR REPLACE VIEW wallet_transaction AS
SELECT e.account_id, e.id, 'WTX-' || e.journal_id AS txn_id, e.currency, abs(e.main + e.pending) AS amount,
       CASE
           WHEN e.reserve > 0 THEN 'hold'
           WHEN e.reserve < 0 THEN 'release'
           WHEN e.main + e.pending > 0 THEN 'credit'
           ELSE 'debit'
       END AS type,
       CASE
           -- Not final yet: a payment that has not settled, or a reserve that still holds.
           WHEN e.kind = 'payment' AND (
               SELECT u.amount > 0
               FROM unsettled u
               WHERE u.account_id = e.account_id AND u.currency = e.currency AND u.source = e.related
           ) THEN 'pending'
           WHEN e.reserve > 0 AND (
               SELECT true
               FROM drawn d
               WHERE d.account_id = e.account_id AND d.currency = e.currency AND d.claim = e.related AND d.reserved
               LIMIT 1
           ) THEN 'pending'
           -- Undone by a later journal, or given back.
           WHEN e.kind = 'reserve' THEN 'reversed'
           WHEN (
               SELECT true
               FROM journal j
               WHERE j.account_id = e.account_id AND j.kind = ledger_reversal(e.kind)
                 AND j.ref = substr(e.related, strpos(e.related, ':') + 1)
               LIMIT 1
           ) THEN 'reversed'
           ELSE 'posted'
       END AS status,
       e.note AS notes, e.created_at, e.balance_before, e.balance_after,
       ledger_category(e.kind) AS category, e.related
FROM wallet_entry e
WHERE e.main + e.pending <> 0;

-- What the service's role may do --------------------------------------------------------------------------------

GRANT SELECT, INSERT, UPDATE, DELETE ON tally TO bursar_app;
GRANT SELECT, INSERT, UPDATE ON tally_mark TO bursar_app;
