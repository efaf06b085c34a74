-- shows: new columns of a merge-on-read table with log files
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'mor');
INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1);
UPDATE t SET v = 'logged', ts = 2 WHERE id = 1;
ALTER TABLE t ADD COLUMNS (extra DOUBLE);
SELECT id, v, extra FROM t;
UPDATE t SET extra = 1.5, ts = 3 WHERE id = 1;
