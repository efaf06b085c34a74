-- shows: a record key of two columns
CREATE TABLE t (a INT, b STRING, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'a,b', preCombineField = 'ts');
SET hoodie.spark.sql.insert.into.operation = upsert;
INSERT INTO t VALUES (1, 'x', 'first', 1), (1, 'y', 'second', 1), (2, 'x', 'third', 1);
INSERT INTO t VALUES (1, 'y', 'replaced', 2), (2, 'y', 'new', 2);
UPDATE t SET v = 'u' WHERE a = 1 AND b = 'x';
