-- shows: MERGE from no rows, and into an empty table
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
MERGE INTO t USING (SELECT 1 AS id, 'a' AS v, 1L AS ts) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
MERGE INTO t USING (SELECT 1 AS id, 'b' AS v, 2L AS ts WHERE false) s ON t.id = s.id WHEN MATCHED THEN DELETE;
