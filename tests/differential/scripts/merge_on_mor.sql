-- shows: MERGE on a merge-on-read table, twice
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'mor');
INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 1);
MERGE INTO t USING (SELECT 1 AS id, 'a2' AS v, 2L AS ts UNION ALL SELECT 2, 'b2', 2L) s ON t.id = s.id
WHEN MATCHED AND s.id = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET id = s.id, v = s.v, ts = s.ts;
MERGE INTO t USING (SELECT 1 AS id, 'a3' AS v, 3L AS ts UNION ALL SELECT 2, 'b3', 3L) s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
