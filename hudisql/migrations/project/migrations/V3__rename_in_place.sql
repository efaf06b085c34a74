-- Old queries see the Hudi tables from here on. The old tables are external: their files stay where they are.
ALTER TABLE shop.orders RENAME TO shop.orders__source;
ALTER TABLE shop.orders_hudi RENAME TO shop.orders;
ALTER TABLE shop.customers RENAME TO shop.customers__source;
ALTER TABLE shop.customers_hudi RENAME TO shop.customers;
