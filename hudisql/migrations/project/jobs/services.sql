-- What a table needs now and then: old file versions are deleted, old instants archived.
CALL run_clean(table => 'shop.orders');
CALL run_clean(table => 'shop.customers');
CALL archive_commits(table => 'shop.orders');
