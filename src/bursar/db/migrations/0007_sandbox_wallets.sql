-- The wallets of the sandbox's fixture: GBP 10,000.00 each, posted like any other money.

SELECT ledger_post(
    j_account_id => ARRAY[1, 2, 3]::bigint[],
    j_kind       => ARRAY['adjustment', 'adjustment', 'adjustment'],
    j_ref        => ARRAY['sandbox', 'sandbox', 'sandbox'],
    j_currency   => ARRAY['GBP', 'GBP', 'GBP'],
    j_related    => ARRAY['adjustment:sandbox', 'adjustment:sandbox', 'adjustment:sandbox'],
    j_note       => ARRAY['The sandbox''s money', 'The sandbox''s money', 'The sandbox''s money'],
    j_event_at   => ARRAY[NULL, NULL, NULL]::timestamptz[],
    w_account_id => ARRAY[1, 2, 3]::bigint[],
    w_currency   => ARRAY['GBP', 'GBP', 'GBP'],
    l_journal    => ARRAY[1, 1, 2, 2, 3, 3],
    l_wallet     => ARRAY[1, 0, 2, 0, 3, 0],
    l_op         => ARRAY['credit', 'service', 'credit', 'service', 'credit', 'service'],
    l_via        => ARRAY['main', 'main', 'main', 'main', 'main', 'main'],
    l_kind       => ARRAY['adjustment', 'adjustments', 'adjustment', 'adjustments', 'adjustment', 'adjustments'],
    l_amount     => ARRAY[1000000, -1000000, 1000000, -1000000, 1000000, -1000000]::bigint[],
    l_source     => ARRAY['', '', '', '', '', ''],
    l_settles_at => ARRAY[NULL, NULL, NULL, NULL, NULL, NULL]::timestamptz[]
);
