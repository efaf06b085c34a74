-- shows: UPDATE whose condition is a subquery over another Hudi table
CREATE TABLE t (id INT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
CREATE TABLE chosen (id INT, ok BOOLEAN) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');
INSERT INTO chosen VALUES (1, true), (2, false);
UPDATE t SET v = 'chosen' WHERE id IN (SELECT id FROM chosen WHERE ok);
DELETE FROM t WHERE EXISTS (SELECT 1 FROM chosen c WHERE c.id = t.id AND NOT c.ok);
