-- The same payment written by hand: the ledger's own columns and indexes, whatever they are today, without its function,
-- its checks and its privileges.

DO $$
DECLARE
    name  text;
    options  text;
BEGIN
    FOREACH name IN ARRAY ARRAY['wallet', 'journal', 'wallet_entry', 'unsettled'] LOOP
        SELECT array_to_string(reloptions, ', ') INTO options FROM pg_class WHERE oid = name::regclass;
        EXECUTE format('CREATE TABLE hand_%s (LIKE %I INCLUDING DEFAULTS INCLUDING INDEXES INCLUDING GENERATED)', name, name)
            || coalesce(' WITH (' || options || ')', '');
        EXECUTE format('GRANT SELECT, INSERT, UPDATE ON hand_%s TO bursar_app', name);
    END LOOP;
END $$;

INSERT INTO hand_wallet SELECT * FROM wallet;
CREATE TABLE bench_wallet AS SELECT * FROM wallet;  -- as it was before the floor was measured
CREATE SEQUENCE hand_journal_id;
CREATE SEQUENCE hand_entry_id;
GRANT USAGE ON hand_journal_id, hand_entry_id TO bursar_app;
ANALYZE hand_wallet;
