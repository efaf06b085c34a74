-- shows: conditions and values by functions, CASE, LIKE, IN and BETWEEN
CREATE TABLE t (id INT, name STRING, v DOUBLE) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'Anna', 1), (2, 'bob', 2), (3, 'Cleo', 3), (4, 'dora', 4), (5, 'Eve_', 5);
UPDATE t SET name = CASE WHEN v > 2 THEN upper(name) ELSE lower(name) END, v = v * 10 WHERE name LIKE '%o%' OR id IN (1, 5);
DELETE FROM t WHERE v BETWEEN 10 AND 25;
SELECT name, round(sqrt(v), 3) AS r FROM t ORDER BY 1;
