-- shows: INSERT as insert, asked for, in a table with an ordering column
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
SET hoodie.spark.sql.insert.into.operation = insert;
INSERT INTO t VALUES (1, 'a', 5), (2, 'b', 5);
INSERT INTO t VALUES (1, 'again', 6), (3, 'c', 5);
