-- ODS: the tables of the shop as they are, bootstrapped from the parquet files of the old warehouse.
-- Changes come from Kafka (ods_from_kafka.sql), or by MERGE (changes.sql) where there is no broker.
CALL bootstrap_table(table => 'ods.customer', source => '${source}/customer', record_key => 'c_custkey');
CALL bootstrap_table(table => 'ods.orders', source => '${source}/orders', record_key => 'o_orderkey');
CALL bootstrap_table(
  table => 'ods.lineitem', source => '${source}/lineitem', record_key => 'l_orderkey,l_linenumber');
