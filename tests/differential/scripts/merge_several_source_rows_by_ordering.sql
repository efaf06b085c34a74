-- shows: several source rows for one target row: the highest ordering value wins
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1);
MERGE INTO t USING (SELECT 1 AS id, 'five' AS v, 5L AS ts UNION ALL SELECT 1, 'nine', 9L UNION ALL SELECT 1, 'seven', 7L) s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET *;
