-- shows: MERGE with a lower ordering value than the stored row's, OverwriteWithLatest on copy-on-write
-- rows t: [[1, "lower", 5], [2, "higher", 15]]
-- why: MERGE does what its clauses say, also with a lower ordering value; Hudi keeps the stored row
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 10);
MERGE INTO t USING (SELECT 1 AS id, 'lower' AS v, 5L AS ts UNION ALL SELECT 2, 'higher', 15L) s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET *;
