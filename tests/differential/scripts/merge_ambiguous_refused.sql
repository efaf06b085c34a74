-- shows: several source rows for one target row without an ordering column are refused, and nothing is changed
-- oracle: delta
CREATE TABLE t (id INT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a'), (2, 'b');
-- fails: both
MERGE INTO t USING (SELECT 1 AS id, 'x' AS v UNION ALL SELECT 1, 'y') s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v;
