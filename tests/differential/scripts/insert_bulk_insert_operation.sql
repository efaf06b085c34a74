-- shows: INSERT as bulk_insert; Hudi combines rows of one key within a statement if the table has an ordering column
-- rows t: [[1, "a", 5, "x"], [1, "twice", 6, "x"], [1, "again", 1, "x"], [2, "b", 1, "y"]]
-- why: an INSERT that is not an upsert adds every row
CREATE TABLE t (id INT, v STRING, ts BIGINT, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
SET hoodie.spark.sql.insert.into.operation = bulk_insert;
INSERT INTO t VALUES (1, 'a', 5, 'x'), (1, 'twice', 6, 'x');
INSERT INTO t VALUES (1, 'again', 1, 'x'), (2, 'b', 1, 'y');
