-- shows: several new source rows of one key: the highest ordering value is inserted
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO t VALUES (1, 'a', 1);
MERGE INTO t USING (SELECT 2 AS id, 'five' AS v, 5L AS ts UNION ALL SELECT 2, 'nine', 9L UNION ALL SELECT 2, 'seven', 7L) s ON t.id = s.id
WHEN NOT MATCHED THEN INSERT *;
