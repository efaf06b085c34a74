-- shows: a merge-on-read table without primaryKey, by statements and by DataFrames, whose upserts add rows
-- meta: _hoodie_partition_path
CREATE TABLE t (id INT, v STRING, ts BIGINT, p STRING) USING hudi PARTITIONED BY (p) TBLPROPERTIES (type = 'mor');
INSERT INTO t VALUES (1, 'a', 1, 'x'), (1, 'a', 1, 'x'), (2, 'b', 2, 'x'), (3, 'c', 3, 'y');
UPDATE t SET v = concat(v, '!'), ts = 0 WHERE id = 1;
DELETE FROM t WHERE id = 2;
WRITE upsert INTO t SELECT 1 AS id, 'up' AS v, 7L AS ts, 'x' AS p UNION ALL SELECT 3, 'up', 7L, 'y';
WRITE insert INTO t SELECT 1 AS id, 'in' AS v, 7L AS ts, 'x' AS p;
WRITE bulk_insert INTO t SELECT 1 AS id, 'in' AS v, 7L AS ts, 'x' AS p;
-- fails: both
WRITE delete INTO t SELECT 1 AS id, 'in' AS v, 7L AS ts, 'x' AS p;
UPDATE t SET ts = ts + 1 WHERE p = 'x';
SELECT id, v, ts, p FROM t;
WRITE insert_overwrite INTO t SELECT 4 AS id, 'd' AS v, 1L AS ts, 'y' AS p;
