-- shows: conditions with correlated EXISTS and scalar subqueries
CREATE TABLE t (id INT, v INT) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, NULL);
UPDATE t SET v = v + 100 WHERE v = (SELECT max(x) FROM VALUES (1), (3) AS m(x));
DELETE FROM t WHERE id IN (SELECT x FROM VALUES (2), (NULL) AS m(x));
