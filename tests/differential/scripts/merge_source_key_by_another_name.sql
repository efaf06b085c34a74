-- shows: MERGE whose source names the key otherwise
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1);
MERGE INTO t USING (SELECT 2 AS source_id, 'b2' AS w, 2L AS at UNION ALL SELECT 3, 'c2', 2L) s ON t.id = s.source_id
WHEN MATCHED THEN UPDATE SET v = s.w, ts = s.at WHEN NOT MATCHED THEN INSERT (id, v, ts) VALUES (s.source_id, s.w, s.at);
