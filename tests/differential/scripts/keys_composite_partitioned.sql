-- shows: a record key of two columns in a partitioned table: a key counts within its partition
CREATE TABLE t (a INT, b STRING, v STRING, ts BIGINT, dt STRING) USING hudi PARTITIONED BY (dt)
TBLPROPERTIES (primaryKey = 'a,b', preCombineField = 'ts');
SET hoodie.spark.sql.insert.into.operation = upsert;
INSERT INTO t VALUES (1, 'x', 'first', 1, 'p'), (1, 'y', 'second', 1, 'p');
INSERT INTO t VALUES (1, 'y', 'other partition', 2, 'q'), (1, 'x', 'replaced', 2, 'p');
