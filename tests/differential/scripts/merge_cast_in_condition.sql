-- shows: MERGE whose condition casts the source's text to the key's type
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1);
MERGE INTO t USING (SELECT '2' AS id, 'b2' AS v, 2L AS ts UNION ALL SELECT '3', 'c2', 2L) s ON t.id = CAST(s.id AS INT)
WHEN MATCHED THEN UPDATE SET v = s.v, ts = s.ts WHEN NOT MATCHED THEN INSERT (id, v, ts) VALUES (CAST(s.id AS INT), s.v, s.ts);
