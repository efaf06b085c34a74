-- What the company has today: plain parquet, known to Hive. It stands for your own tables: in a project of
-- yours this script goes away, and `hudisql migrate baseline` says where the history begins.
CREATE DATABASE IF NOT EXISTS shop;
CREATE EXTERNAL TABLE IF NOT EXISTS shop.orders (order_id BIGINT, customer_id BIGINT, amount DOUBLE, updated_at BIGINT)
  PARTITIONED BY (day STRING) STORED AS PARQUET LOCATION '${source}/orders';
CREATE EXTERNAL TABLE IF NOT EXISTS shop.customers (customer_id BIGINT, name STRING, updated_at BIGINT)
  STORED AS PARQUET LOCATION '${source}/customers';
INSERT OVERWRITE TABLE shop.orders PARTITION (day = '2024-03-01')
  VALUES (1, 1, 12.5, 1), (2, 1, 7.25, 1), (3, 2, 99.0, 1);
INSERT OVERWRITE TABLE shop.customers VALUES (1, 'Ada', 1), (2, 'Grace', 1);
