-- shows: an upsert gives all rows of its key in the file group the new values
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
SET hoodie.spark.sql.insert.into.operation = insert;
INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1);
INSERT INTO t VALUES (1, 'twin', 2);
SET hoodie.spark.sql.insert.into.operation = upsert;
INSERT INTO t VALUES (1, 'new', 3);
