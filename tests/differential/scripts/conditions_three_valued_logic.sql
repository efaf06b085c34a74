-- shows: conditions that are NULL change nothing, in UPDATE and DELETE
CREATE TABLE t (id INT, v INT, w STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 1, 'a'), (2, NULL, 'b'), (3, 3, NULL), (4, 4, 'd');
UPDATE t SET w = 'changed' WHERE v > 2 AND w <> 'd';
DELETE FROM t WHERE NOT (v = 1);
UPDATE t SET v = coalesce(v, -1) WHERE v IS NULL OR w IS NULL;
SELECT id FROM t WHERE v NOT IN (1, NULL);
