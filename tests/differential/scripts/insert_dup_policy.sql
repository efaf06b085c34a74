-- shows: hoodie.datasource.insert.dup.policy leaves rows of stored keys out, or fails; copy-on-write and merge-on-read
CREATE TABLE c (id INT, v STRING, ts INT, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO c VALUES (1, 'a', 5, 'd1'), (2, 'b', 5, 'd1');
SET hoodie.datasource.insert.dup.policy = drop;
INSERT INTO c VALUES (1, 'new', 6, 'd1'), (9, 'x', 1, 'd1'), (9, 'y', 2, 'd1'), (2, 'other', 1, 'd2');
SET hoodie.spark.sql.insert.into.operation = insert;
INSERT INTO c VALUES (1, 'new', 6, 'd1'), (8, 'x', 1, 'd1'), (2, 'other', 9, 'd2'), (7, 'z', 1, 'd3');
INSERT INTO c VALUES (1, 'new', 6, 'd1');
SET hoodie.spark.sql.insert.into.operation = bulk_insert;
-- fails: both
INSERT INTO c VALUES (1, 'new', 6, 'd1'), (6, 'x', 1, 'd1');
RESET hoodie.spark.sql.insert.into.operation;
SET hoodie.datasource.insert.dup.policy = fail;
-- fails: both
INSERT INTO c VALUES (1, 'new', 6, 'd1'), (6, 'x', 1, 'd1');
INSERT INTO c VALUES (5, 'x', 1, 'd1'), (5, 'y', 2, 'd1'), (1, 'other', 1, 'd3');
CREATE TABLE m (id INT, v STRING, ts INT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'mor');
INSERT INTO m VALUES (1, 'a', 5), (2, 'b', 5);
SET hoodie.datasource.insert.dup.policy = drop;
INSERT INTO m VALUES (1, 'new', 6), (3, 'c', 1);
