-- shows: MERGE whose condition is never true: everything is inserted, everything is unmatched
-- oracle: delta
CREATE TABLE t (id INT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a'), (2, 'b');
MERGE INTO t USING (SELECT 3 AS id, 'c' AS v) s ON false
WHEN NOT MATCHED THEN INSERT *
WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN DELETE;
