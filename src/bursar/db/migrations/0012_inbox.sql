-- A callback is written three times: when it comes, when it is taken and when it is done. With room on its page the
-- second costs no index an entry.
ALTER TABLE processor_inbox SET (fillfactor = 60);
