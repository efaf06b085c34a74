-- shows: MERGE whose source is made from the target itself
-- oracle: delta
CREATE TABLE t (id INT, v INT) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 1), (2, 2), (3, 3);
MERGE INTO t USING (SELECT id + 1 AS id, v * 100 AS v FROM t) s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *;
