-- shows: source rows whose key is NULL match nothing
-- oracle: delta
CREATE TABLE t (id INT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a'), (2, 'b');
MERGE INTO t USING (SELECT CAST(NULL AS INT) AS id, 'n' AS v UNION ALL SELECT 2, 'b2') s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET v = s.v
WHEN NOT MATCHED AND s.id IS NOT NULL THEN INSERT *;
