-- shows: _hoodie_is_deleted on a merge-on-read table, then the key again
CREATE TABLE t (id INT, v STRING, ts BIGINT, _hoodie_is_deleted BOOLEAN) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'mor');
SET hoodie.spark.sql.insert.into.operation = upsert;
INSERT INTO t VALUES (1, 'a', 1, false), (2, 'b', 1, false);
INSERT INTO t VALUES (1, 'gone', 2, true);
SELECT id FROM t;
INSERT INTO t VALUES (1, 'back', 3, false);
