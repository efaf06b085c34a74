-- shows: joins, aggregates, windows and set operations over changed tables
CREATE TABLE t (id INT, k STRING, v DOUBLE) USING hudi TBLPROPERTIES (primaryKey = 'id');
CREATE TABLE u (k STRING, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'k');
INSERT INTO t VALUES (1, 'x', 1), (2, 'x', 2), (3, 'y', 3), (4, NULL, 4);
INSERT INTO u VALUES ('x', 'ex'), ('z', 'zet');
DELETE FROM t WHERE id = 2;
SELECT t.id, u.name FROM t FULL OUTER JOIN u ON t.k = u.k;
WITH ranked AS (SELECT id, k, rank() OVER (PARTITION BY k ORDER BY v DESC) AS r FROM t) SELECT * FROM ranked WHERE r = 1;
SELECT k FROM t EXCEPT SELECT k FROM u;
SELECT k, sum(v) AS s, count(*) AS n FROM t GROUP BY ROLLUP (k);
