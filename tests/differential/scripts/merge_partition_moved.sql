-- shows: MERGE that changes the partition column
-- oracle: delta
CREATE TABLE t (id INT, v STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y');
MERGE INTO t USING (SELECT 1 AS id, 'y' AS dt UNION ALL SELECT 3, 'z' UNION ALL SELECT 4, 'z') s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET dt = s.dt
WHEN NOT MATCHED THEN INSERT (id, dt) VALUES (s.id, s.dt);
SELECT dt, count(*) AS n FROM t GROUP BY dt;
