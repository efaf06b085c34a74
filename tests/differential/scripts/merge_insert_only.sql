-- shows: MERGE that only inserts; matching rows stay as they are
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO t VALUES (1, 'a', 1);
MERGE INTO t USING (SELECT 1 AS id, 'a2' AS v, 9L AS ts UNION ALL SELECT 2, 'b2', 9L UNION ALL SELECT 3, 'c2', 9L) s ON t.id = s.id
WHEN NOT MATCHED AND s.id <> 3 THEN INSERT *;
