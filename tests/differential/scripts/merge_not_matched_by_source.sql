-- shows: MERGE with WHEN NOT MATCHED BY SOURCE, which Hudi refuses
-- oracle: delta
CREATE TABLE t (id INT, v STRING, n INT) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4);
MERGE INTO t USING (SELECT 1 AS id, 'a2' AS v UNION ALL SELECT 5, 'e2') s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET v = s.v
WHEN NOT MATCHED THEN INSERT (id, v, n) VALUES (s.id, s.v, 0)
WHEN NOT MATCHED BY SOURCE AND t.n > 3 THEN DELETE
WHEN NOT MATCHED BY SOURCE AND t.n = 2 THEN UPDATE SET n = t.n + 10;
