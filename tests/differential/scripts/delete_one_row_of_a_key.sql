-- shows: DELETE of one of two rows with one record key; Hudi deletes both
-- rows t: [[1, "twin", 2], [2, "b", 1]]
-- why: a statement changes the rows that its condition names, and no others
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
SET hoodie.spark.sql.insert.into.operation = insert;
INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1);
INSERT INTO t VALUES (1, 'twin', 2);
DELETE FROM t WHERE v = 'a';
