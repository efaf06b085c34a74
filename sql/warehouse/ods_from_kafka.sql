-- ODS goes on from Kafka: the writer service takes the changes that Debezium sends of the shop's database.
-- ${servers} are Kafka's brokers. `hudisql ingest worker` runs it, without Spark. The tables have no partitions
-- by date: index_days says how long their keys stay in the worker's memory.
CALL ingest_table(table => 'ods.customer', topic => 'shop.public.customer', bootstrap_servers => '${servers}',
  format => 'debezium', index_days => 36500);
CALL ingest_table(table => 'ods.orders', topic => 'shop.public.orders', bootstrap_servers => '${servers}',
  format => 'debezium', index_days => 36500);
CALL ingest_table(table => 'ods.lineitem', topic => 'shop.public.lineitem', bootstrap_servers => '${servers}',
  format => 'debezium', index_days => 36500);
