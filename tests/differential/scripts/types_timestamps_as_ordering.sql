-- shows: a timestamp as ordering column, merge-on-read, rows that come late in the same and a later write
CREATE TABLE t (id INT, v STRING, at TIMESTAMP) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'at', type = 'mor');
SET hoodie.spark.sql.insert.into.operation = upsert;
INSERT INTO t VALUES (1, 'old', TIMESTAMP '2024-01-01 00:00:00'), (1, 'new', TIMESTAMP '2024-01-01 00:00:01');
INSERT INTO t VALUES (1, 'back', TIMESTAMP '2023-01-01 00:00:00'), (2, 'two', TIMESTAMP '2024-01-01 00:00:00');
