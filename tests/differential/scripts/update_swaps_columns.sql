-- shows: UPDATE reads all old values before it sets new ones
CREATE TABLE t (id INT, a INT, b INT) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 10, 20), (2, 30, NULL);
UPDATE t SET a = b, b = a;
