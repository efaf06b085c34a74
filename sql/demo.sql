-- The main job, from end to end: an old Hive table becomes a Hudi table without rewriting it.
-- Run by `make demo`; ${source} is the directory that sql/make_demo_data.py wrote.

-- 1. What the company has today: plain parquet, partitioned, known to Hive.
CREATE DATABASE IF NOT EXISTS legacy;
CREATE EXTERNAL TABLE legacy.lineitem (
  l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT,
  l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2),
  l_returnflag STRING, l_linestatus STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE,
  l_shipinstruct STRING, l_shipmode STRING, l_comment STRING
)
PARTITIONED BY (ship_year INT)
STORED AS PARQUET
LOCATION '${source}';
MSCK REPAIR TABLE legacy.lineitem;
SELECT ship_year, count(*) AS line_items FROM legacy.lineitem GROUP BY ship_year ORDER BY ship_year;

-- 2. What would happen: the plan, with nothing written.
CALL bootstrap_table(
  table => 'lake.lineitem', source_table => 'legacy.lineitem',
  record_key => 'l_orderkey,l_linenumber', precombine => 'l_receiptdate',
  dry_run => true);

-- 3. The real thing: only the skeletons are written (written_bytes); a rewrite would have written
--    about source_bytes again.
CALL bootstrap_table(
  table => 'lake.lineitem', source_table => 'legacy.lineitem',
  record_key => 'l_orderkey,l_linenumber', precombine => 'l_receiptdate');

-- 4. It is a Hudi table now, known to the metastore, and answers by its name.
SHOW TABLES IN lake;
CALL show_commits(table => 'lake.lineitem');
CALL show_bootstrap_mapping(table => 'lake.lineitem', limit => 3);

SELECT l_returnflag, l_linestatus, sum(l_quantity) AS quantity, round(avg(l_discount), 4) AS discount, count(*) AS items
FROM lake.lineitem
WHERE l_shipdate <= DATE '1998-09-02'
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus;

SELECT _hoodie_record_key, _hoodie_partition_path, l_shipmode, l_extendedprice
FROM lake.lineitem
WHERE ship_year = 1995
ORDER BY l_extendedprice DESC
LIMIT 3;

-- 5. How it was read: partitions pruned, columns and filters pushed down to the untouched source files.
EXPLAIN SELECT l_shipmode, count(*) FROM lake.lineitem WHERE ship_year = 1995 AND l_quantity > 45 GROUP BY l_shipmode;

-- 6. The old table and the new one hold the same rows.
SELECT count(*) AS different_rows FROM (
  SELECT l_orderkey, l_linenumber, l_extendedprice, l_comment, ship_year FROM legacy.lineitem
  EXCEPT
  SELECT l_orderkey, l_linenumber, l_extendedprice, l_comment, ship_year FROM lake.lineitem
);

-- 7. The table lives: a day's corrections arrive. Two partitions are rewritten as whole base files, one keeps
--    its skeletons, and the source files stay as they are.
CREATE OR REPLACE TEMPORARY VIEW corrections AS
  SELECT l_orderkey, l_linenumber, l_quantity + 1 AS l_quantity, ship_year, l_shipmode = 'AIR' AS is_cancelled
  FROM lake.lineitem WHERE ship_year IN (1995, 1996) AND l_orderkey % 500 = 1;

MERGE INTO lake.lineitem AS t
USING (SELECT * FROM corrections) AS c
ON t.ship_year = c.ship_year AND t.l_orderkey = c.l_orderkey AND t.l_linenumber = c.l_linenumber
WHEN MATCHED AND c.is_cancelled THEN DELETE
WHEN MATCHED THEN UPDATE SET l_quantity = c.l_quantity;

DELETE FROM lake.lineitem WHERE ship_year = 1995 AND l_comment LIKE '%regular%';

INSERT INTO lake.lineitem (l_orderkey, l_linenumber, l_quantity, ship_year) VALUES (9000001, 1, 7, 1999);

CALL show_commits(table => 'lake.lineitem');
SELECT _hoodie_commit_time = '00000000000001' AS as_bootstrapped, count(*) AS line_items
FROM lake.lineitem GROUP BY 1 ORDER BY 1;
SELECT count(*) AS line_items_of_the_source FROM legacy.lineitem;

-- 8. Its history stays: the state right after the bootstrap, and each change since then.
SELECT count(*) AS line_items_after_the_bootstrap FROM lake.lineitem VERSION AS OF '00000000000001';
SELECT op AS change, count(*) AS line_items
FROM hudi_table_changes('lake.lineitem', 'cdc', '00000000000001')
GROUP BY op ORDER BY op;

-- 9. The same source as a merge-on-read table: changes are appended to log files, a compaction merges them
--    into base files, and a savepoint keeps a state for as long as it is wanted.
CALL bootstrap_table(
  table => 'lake.lineitem_1995', source_table => 'legacy.lineitem', table_type => 'MERGE_ON_READ',
  record_key => 'l_orderkey,l_linenumber', precombine => 'l_receiptdate',
  partition_filter => 'ship_year = 1995');
UPDATE lake.lineitem_1995 SET l_quantity = l_quantity + 1 WHERE l_orderkey % 500 = 1;

CALL run_compaction(
  op => 'scheduleandexecute', table => 'lake.lineitem_1995',
  options => 'hoodie.compact.inline.max.delta.commits=1');
CALL create_savepoint(table => 'lake.lineitem_1995', comments => 'after the first compaction');
CALL show_timeline(table => 'lake.lineitem_1995');

-- 10. Engines that know no Hudi read the same files as an Iceberg table.
CALL sync_iceberg(table => 'lake.lineitem');
SELECT ship_year, count(*) AS line_items, CAST(sum(l_quantity) AS BIGINT) AS quantity
FROM lake.lineitem GROUP BY ship_year ORDER BY ship_year LIMIT 3;
