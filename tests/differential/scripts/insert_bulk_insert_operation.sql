-- shows: INSERT as bulk_insert: rows of one key within a statement are combined if the table has an ordering column
CREATE TABLE t (id INT, v STRING, ts BIGINT, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
SET hoodie.spark.sql.insert.into.operation = bulk_insert;
INSERT INTO t VALUES (1, 'a', 5, 'x'), (1, 'twice', 6, 'x'), (1, 'elsewhere', 1, 'y');
INSERT INTO t VALUES (1, 'again', 1, 'x'), (2, 'b', 1, 'y');
SET hoodie.combine.before.insert = false;
INSERT INTO t VALUES (3, 'kept', 5, 'x'), (3, 'kept, too', 6, 'x');
