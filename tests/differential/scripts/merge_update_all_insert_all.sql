-- shows: MERGE with UPDATE SET * and INSERT *, in a partitioned table
-- meta: _hoodie_record_key, _hoodie_partition_path, commit
CREATE TABLE t (id INT, v STRING, ts BIGINT, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO t VALUES (1, 'a', 1, 'x'), (2, 'b', 1, 'y'), (3, 'c', 1, 'y');
MERGE INTO t USING (SELECT 1 AS id, 'a2' AS v, 2L AS ts, 'x' AS dt UNION ALL SELECT 4, 'd2', 2L, 'z') s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
