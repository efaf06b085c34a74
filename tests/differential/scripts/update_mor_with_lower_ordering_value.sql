-- shows: UPDATE that lowers the ordering column of a merge-on-read table
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'mor');
INSERT INTO t VALUES (1, 'a', 5), (2, 'b', 5);
UPDATE t SET v = 'first', ts = 3 WHERE id = 1;
UPDATE t SET v = 'second', ts = 1 WHERE id = 2;
