-- shows: DataFrames upserted, inserted and deleted by key
CREATE TABLE t (id INT, v STRING, ts BIGINT, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
WRITE upsert INTO t SELECT 1 AS id, 'a' AS v, 1L AS ts, 'x' AS dt UNION ALL SELECT 2, 'b', 1L, 'x' UNION ALL SELECT 3, 'c', 1L, 'y';
WRITE upsert INTO t SELECT 1 AS id, 'a2' AS v, 2L AS ts, 'x' AS dt UNION ALL SELECT 4, 'd', 1L, 'y';
WRITE insert INTO t SELECT 4 AS id, 'twice' AS v, 1L AS ts, 'y' AS dt;
WRITE delete INTO t SELECT 2 AS id, 'x' AS dt, 'b' AS v, 5L AS ts;
