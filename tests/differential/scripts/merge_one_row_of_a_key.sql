-- shows: MERGE, UPDATE and DELETE change the rows that they select, and no others of their key
-- oracle: delta
CREATE TABLE t (id INT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a'), (1, 'b'), (1, 'c'), (1, 'd'), (2, 'e');
MERGE INTO t USING (SELECT 'a' AS v) s ON t.v = s.v WHEN MATCHED THEN UPDATE SET v = 'merged';
UPDATE t SET v = 'updated' WHERE v = 'b';
UPDATE t SET id = 7 WHERE v = 'c';
DELETE FROM t WHERE v = 'd';
