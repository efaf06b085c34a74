-- shows: DataFrames by insert_overwrite and insert_overwrite_table
CREATE TABLE t (id INT, v STRING, ts BIGINT, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
WRITE bulk_insert INTO t SELECT 1 AS id, 'a' AS v, 1L AS ts, 'x' AS dt UNION ALL SELECT 2, 'b', 1L, 'y' UNION ALL SELECT 3, 'c', 1L, 'z';
WRITE insert_overwrite INTO t SELECT 4 AS id, 'd' AS v, 1L AS ts, 'y' AS dt;
SELECT id, v, dt FROM t;
WRITE insert_overwrite_table INTO t SELECT 5 AS id, 'e' AS v, 1L AS ts, 'x' AS dt;
