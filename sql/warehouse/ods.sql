-- ODS: the tables of the shop as they are, bootstrapped from the parquet files of the old warehouse.
-- Changes reach them by MERGE (changes.sql); where there is a broker, `hudisql ingest worker` writes them.
CALL bootstrap_table(table => 'ods.customer', source => '${source}/customer', record_key => 'c_custkey');
CALL bootstrap_table(table => 'ods.orders', source => '${source}/orders', record_key => 'o_orderkey');
CALL bootstrap_table(
  table => 'ods.lineitem', source => '${source}/lineitem', record_key => 'l_orderkey,l_linenumber');
