-- shows: rows of one key within an INSERT, an INSERT OVERWRITE, CREATE TABLE AS and DataFrames, combined or not
CREATE TABLE t USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts')
AS SELECT * FROM VALUES (1, 'kept', 5L, 'x'), (1, 'kept, too', 6L, 'x') AS s (id, v, ts, dt);
SET hoodie.spark.sql.insert.into.operation = insert;
INSERT INTO t VALUES (2, 'older', 5, 'x'), (2, 'newer', 6, 'x'), (2, 'elsewhere', 1, 'y');
SELECT * FROM t;
INSERT OVERWRITE t PARTITION (dt = 'x') SELECT * FROM VALUES (3, 'newer', 6L), (3, 'older', 5L) AS s (id, v, ts);
WRITE insert INTO t SELECT 4 AS id, 'kept' AS v, 1L AS ts, 'y' AS dt UNION ALL SELECT 4, 'kept, too', 2L, 'y';
WRITE bulk_insert INTO t OPTIONS ('hoodie.combine.before.insert' = 'true') SELECT 5 AS id, 'older' AS v, 1L AS ts, 'y' AS dt UNION ALL SELECT 5, 'newer', 2L, 'y';
