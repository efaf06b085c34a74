-- shows: MERGE that only deletes
CREATE TABLE t (id INT, v STRING, ts BIGINT, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO t VALUES (1, 'a', 1, 'x'), (2, 'b', 1, 'x'), (3, 'c', 1, 'y');
MERGE INTO t USING (SELECT 1 AS id, 'x' AS dt, 2L AS ts UNION ALL SELECT 3, 'y', 2L UNION ALL SELECT 9, 'y', 2L) s ON t.id = s.id AND t.dt = s.dt
WHEN MATCHED THEN DELETE;
