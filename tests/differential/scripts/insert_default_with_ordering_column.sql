-- shows: INSERT without settings into a table with an ordering column
CREATE TABLE t (id INT, name STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 10);
INSERT INTO t VALUES (2, 'newer', 20), (1, 'older', 5), (3, 'c', 1);
