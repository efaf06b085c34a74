-- shows: MERGE that changes the partition column of a merge-on-read table
-- oracle: delta
CREATE TABLE t (id INT, v STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', type = 'mor');
INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y');
MERGE INTO t USING (SELECT 1 AS id, 'y' AS dt UNION ALL SELECT 2, 'x') s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET dt = s.dt, v = 'moved';
