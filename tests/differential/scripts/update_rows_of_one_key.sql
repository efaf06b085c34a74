-- shows: UPDATE of two rows with one record key; Hudi gives both the newest one's values
-- rows t: [[1, "a!", 1], [1, "twin!", 2], [2, "b!", 1]]
-- why: a statement changes the rows that its condition names, each by its own values
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
SET hoodie.spark.sql.insert.into.operation = insert;
INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1);
INSERT INTO t VALUES (1, 'twin', 2);
UPDATE t SET v = concat(v, '!');
