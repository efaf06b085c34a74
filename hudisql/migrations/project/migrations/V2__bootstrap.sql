-- Hudi tables beside the old ones: skeletons are written, the old files are read where they are.
CALL bootstrap_table(table => 'shop.orders_hudi', source_table => 'shop.orders', record_key => 'order_id',
  precombine => 'updated_at');
CALL bootstrap_table(table => 'shop.customers_hudi', source_table => 'shop.customers',
  record_key => 'customer_id', precombine => 'updated_at');
CALL verify_bootstrap(table => 'shop.orders_hudi', level => 'full');
CALL verify_bootstrap(table => 'shop.customers_hudi', level => 'full');
