-- shows: a key deleted on a merge-on-read table, then inserted again
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'mor');
INSERT INTO t VALUES (1, 'a', 5), (2, 'b', 5), (3, 'c', 5);
DELETE FROM t WHERE id = 2;
SELECT * FROM t;
INSERT INTO t VALUES (2, 'again', 1);
UPDATE t SET v = 'later' WHERE id = 2;
