-- shows: MERGE that changes the record key
-- oracle: delta
CREATE TABLE t (id INT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');
MERGE INTO t USING (SELECT 1 AS old, 101 AS new UNION ALL SELECT 3, 3) s ON t.id = s.old
WHEN MATCHED THEN UPDATE SET id = s.new, v = upper(t.v);
