ALTER TABLE shop.customers RENAME TO shop.customers_hudi;
ALTER TABLE shop.customers__source RENAME TO shop.customers;
ALTER TABLE shop.orders RENAME TO shop.orders_hudi;
ALTER TABLE shop.orders__source RENAME TO shop.orders;
