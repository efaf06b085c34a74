-- shows: INSERT OVERWRITE of a merge-on-read table with log files
CREATE TABLE t (id INT, v STRING, ts BIGINT, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'mor');
INSERT INTO t VALUES (1, 'a', 1, 'x'), (2, 'b', 1, 'y');
UPDATE t SET v = 'logged', ts = 2 WHERE id = 2;
INSERT OVERWRITE t PARTITION (dt = 'y') VALUES (2, 'over', 0), (3, 'c', 0);
UPDATE t SET v = 'after' WHERE id = 2;
