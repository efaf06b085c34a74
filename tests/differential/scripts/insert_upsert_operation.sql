-- shows: INSERT as upsert: known keys replaced, also by rows with a lower ordering value (the payload looks at incoming rows alone)
-- meta: _hoodie_record_key, _hoodie_partition_path, commit
CREATE TABLE t (id INT, v STRING, ts BIGINT, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
SET hoodie.spark.sql.insert.into.operation = upsert;
INSERT INTO t VALUES (1, 'a', 5, 'x'), (2, 'b', 5, 'x'), (3, 'c', 5, 'y');
INSERT INTO t VALUES (1, 'lower', 1, 'x'), (2, 'one', 7, 'x'), (2, 'two', 9, 'x'), (2, 'three', 8, 'x'), (3, 'other partition', 9, 'x');
