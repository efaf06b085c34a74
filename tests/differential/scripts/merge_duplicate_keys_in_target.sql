-- shows: MERGE changes every stored row that the condition meets, also those of one key
-- oracle: delta
CREATE TABLE t (id INT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a');
INSERT INTO t VALUES (1, 'twin'), (2, 'b');
MERGE INTO t USING (SELECT 1 AS id, 'both' AS v) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v;
