-- shows: MERGE into a table with two partition columns, joined on all of them
-- oracle: delta
CREATE TABLE t (id INT, v STRING, region STRING, dt STRING) USING hudi PARTITIONED BY (region, dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a', 'eu', 'd1'), (1, 'b', 'us', 'd1'), (2, 'c', 'eu', 'd2');
MERGE INTO t USING (SELECT 1 AS id, 'new' AS v, 'us' AS region, 'd1' AS dt UNION ALL SELECT 2, 'other', 'us', 'd2') s
ON t.id = s.id AND t.region = s.region AND t.dt = s.dt
WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
