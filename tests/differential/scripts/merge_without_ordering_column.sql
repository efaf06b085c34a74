-- shows: MERGE into a table without an ordering column
CREATE TABLE t (id INT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a'), (2, 'b');
MERGE INTO t USING (SELECT 2 AS id, 'b2' AS v UNION ALL SELECT 3, 'c2') s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
