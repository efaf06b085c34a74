-- shows: INSERT without settings adds rows whose keys are there already, in a table without an ordering column
CREATE TABLE t (id INT, name STRING, price DOUBLE) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2.5);
INSERT INTO t VALUES (2, 'again', 3.5), (3, 'c', NULL);
SELECT id, count(*) AS n FROM t GROUP BY id;
