-- shows: INSERT by name with partition columns in the middle of the query, static, dynamic and both
CREATE TABLE t (id INT, v STRING, dt STRING, w STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t SELECT 1, 'v', 'w', 'd1';
INSERT INTO t SELECT 2 AS id, 'w' AS w, 'd1' AS dt, 'v' AS v;
INSERT INTO t PARTITION (dt = 'd1') SELECT 3 AS id, 'w' AS w, 'v' AS v;
INSERT INTO t PARTITION (dt) SELECT 'd1' AS dt, 4 AS id, 'w' AS w, 'v' AS v;
INSERT INTO t PARTITION (dt = 'd1') SELECT 5 AS id, 'v' AS w, 'w' AS x;
-- fails: both takes 3 columns
INSERT INTO t PARTITION (dt = 'd1') SELECT 6 AS id, 'w' AS w, 'v' AS v, 'd9' AS dt;
INSERT OVERWRITE t PARTITION (dt = 'd2') SELECT 7 AS id, 'w' AS w, 'v' AS v;
CREATE TABLE p (id INT, v STRING, region STRING, dt STRING) USING hudi PARTITIONED BY (region, dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO p PARTITION (region = 'eu', dt) SELECT 'd1' AS dt, 1 AS id, 'v' AS v;
INSERT INTO p PARTITION (region, dt = 'd1') SELECT 'eu' AS region, 2 AS id, 'v' AS v;
INSERT INTO p SELECT 3 AS id, 'v' AS v, 'd1' AS dt, 'eu' AS region;
