-- shows: MERGE from another Hudi table with a condition on its partition
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
CREATE TABLE staging (id INT, v STRING, ts BIGINT, day STRING) USING hudi PARTITIONED BY (day) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1);
INSERT INTO staging VALUES (2, 'b2', 2, 'd1'), (3, 'c2', 2, 'd1'), (1, 'a2', 2, 'd2');
MERGE INTO t USING (SELECT id, v, ts FROM staging WHERE day = 'd1') s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET v = s.v, ts = s.ts WHEN NOT MATCHED THEN INSERT *;
