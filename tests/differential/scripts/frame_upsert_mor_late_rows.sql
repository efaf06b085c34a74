-- shows: DataFrame upserts to logs: between log rows the higher ordering value stays
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'mor');
WRITE upsert INTO t SELECT 1 AS id, 'base' AS v, 10L AS ts UNION ALL SELECT 2, 'base', 10L;
WRITE upsert INTO t SELECT 1 AS id, 'first' AS v, 20L AS ts;
WRITE upsert INTO t SELECT 1 AS id, 'late' AS v, 15L AS ts UNION ALL SELECT 2, 'late', 5L;
