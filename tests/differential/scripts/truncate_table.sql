-- shows: TRUNCATE TABLE, then rows again
CREATE TABLE t (id INT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a'), (2, 'b');
TRUNCATE TABLE t;
SELECT count(*) AS n FROM t;
INSERT INTO t VALUES (3, 'c');
