-- Two tables that events of Kafka are written to; run by `make demo-ingest`. ${servers} are Kafka's brokers.
CREATE DATABASE IF NOT EXISTS lake;

-- Clicks as JSON, into a merge-on-read table: new rows go to base files, changes to log files.
CREATE TABLE lake.clicks (click_id STRING, user_id BIGINT, url STRING, ts BIGINT, dt STRING) USING hudi
TBLPROPERTIES (primaryKey = 'click_id', preCombineField = 'ts', type = 'mor') PARTITIONED BY (dt);
CALL ingest_table(table => 'lake.clicks', topic => 'clicks', bootstrap_servers => '${servers}');

-- A database's table as Debezium sends its changes, into a copy-on-write table. The log position of the database
-- orders the changes of one customer.
CREATE TABLE lake.customers (customer_id BIGINT, name STRING, city STRING, _event_lsn BIGINT) USING hudi
TBLPROPERTIES (primaryKey = 'customer_id', preCombineField = '_event_lsn', type = 'cow');
CALL ingest_table(table => 'lake.customers', topic => 'shop.public.customers', bootstrap_servers => '${servers}',
  format => 'debezium', index_days => 36500);
CALL show_ingest();
