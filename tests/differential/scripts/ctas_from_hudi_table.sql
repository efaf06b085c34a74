-- shows: CREATE TABLE AS SELECT from another Hudi table, merge-on-read
CREATE TABLE s (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO s VALUES (1, 'a', 1), (2, 'b', 2);
CREATE TABLE t USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'mor') AS SELECT id, upper(v) AS v, ts FROM s;
DELETE FROM t WHERE id = 1;
