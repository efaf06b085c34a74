-- shows: a date as ordering column decides between source rows of one key
CREATE TABLE t (id INT, v STRING, day DATE) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'day');
SET hoodie.spark.sql.insert.into.operation = upsert;
INSERT INTO t VALUES (1, 'old', DATE '2024-01-01'), (1, 'new', DATE '2024-03-01'), (1, 'middle', DATE '2024-02-01');
INSERT INTO t VALUES (1, 'back', DATE '2023-01-01');
