-- shows: INSERT as upsert with _hoodie_is_deleted
CREATE TABLE t (id INT, v STRING, ts BIGINT, _hoodie_is_deleted BOOLEAN) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
SET hoodie.spark.sql.insert.into.operation = upsert;
INSERT INTO t VALUES (1, 'a', 1, false), (2, 'b', 1, NULL);
INSERT INTO t VALUES (1, 'gone', 2, true), (3, 'never', 2, true), (2, 'b2', 2, false);
