-- shows: a table without primaryKey: INSERT, UPDATE, DELETE, MERGE and INSERT OVERWRITE, with an ordering column too
-- meta: _hoodie_partition_path
CREATE TABLE t (id INT, v STRING, n BIGINT, p STRING) USING hudi PARTITIONED BY (p);
INSERT INTO t VALUES (1, 'a', 1, 'x'), (1, 'a', 1, 'x'), (2, 'b', 2, 'x'), (3, 'c', 3, 'y'), (4, 'd', 4, 'z');
INSERT INTO t VALUES (1, 'a', 1, 'x');
UPDATE t SET v = concat(v, '!'), n = 0 WHERE id = 1;
DELETE FROM t WHERE id = 2;
MERGE INTO t USING (SELECT 3 AS id, 30L AS n, 'y' AS p UNION ALL SELECT 9, 90L, 'w') s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT (id, v, n, p) VALUES (s.id, 'new', s.n, s.p);
SELECT id, v, n, p FROM t;
INSERT OVERWRITE t PARTITION (p = 'x') SELECT 5, 'e', 5L;
CREATE TABLE o (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (preCombineField = 'ts');
INSERT INTO o VALUES (1, 'a', 5), (1, 'b', 5), (1, 'c', 4);
INSERT INTO o VALUES (1, 'd', 1);
UPDATE o SET ts = 0 WHERE v = 'a';
SET hoodie.spark.sql.insert.into.operation = upsert;
INSERT INTO o VALUES (1, 'u', 9);
SET hoodie.spark.sql.insert.into.operation = bulk_insert;
INSERT INTO o VALUES (2, 'l', 1), (2, 'l', 1);
RESET hoodie.spark.sql.insert.into.operation;
CREATE TABLE c USING hudi AS SELECT 1 AS id, 'a' AS v UNION ALL SELECT 1, 'a';
INSERT INTO c VALUES (1, 'a');
