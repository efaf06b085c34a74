-- shows: DELETE with a condition; a table emptied by it takes rows again
CREATE TABLE t (id INT, name STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y'), (4, NULL, 'y');
DELETE FROM t WHERE name = 'a' OR dt = 'y';
SELECT * FROM t;
DELETE FROM t;
SELECT count(*) AS n FROM t;
INSERT INTO t VALUES (5, 'e', 'y');
