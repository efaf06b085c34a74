-- shows: MERGE with a range as its condition
-- oracle: delta
CREATE TABLE t (id INT, v INT) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 5), (2, 15), (3, 25), (4, NULL);
MERGE INTO t USING (SELECT 10 AS low, 20 AS high, 99 AS w) s ON t.v >= s.low AND t.v < s.high
WHEN MATCHED THEN UPDATE SET v = s.w
WHEN NOT MATCHED BY SOURCE AND t.v IS NULL THEN DELETE;
