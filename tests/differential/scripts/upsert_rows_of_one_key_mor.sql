-- shows: an upsert into a merge-on-read table, of a key with several base rows
-- rows t: [[1, "new", 3], [1, "new", 3], [2, "b", 1]]
-- why: a log record takes the place of all base rows of its key; Hudi's snapshot reads replace the first alone
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'mor');
SET hoodie.spark.sql.insert.into.operation = insert;
INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1);
INSERT INTO t VALUES (1, 'twin', 2);
SET hoodie.spark.sql.insert.into.operation = upsert;
INSERT INTO t VALUES (1, 'new', 3);
