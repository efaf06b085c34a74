-- shows: DELETE with NOT IN, scalar and correlated subqueries
CREATE TABLE t (id INT, v INT) USING hudi TBLPROPERTIES (primaryKey = 'id');
CREATE TABLE u (id INT, v INT) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5);
INSERT INTO u VALUES (2, 2), (4, 4), (5, 50);
DELETE FROM t WHERE v > (SELECT max(v) FROM u WHERE v < 10) AND id NOT IN (SELECT id FROM u WHERE v < 10);
DELETE FROM t WHERE id IN (SELECT u.id FROM u WHERE u.v = t.v);
