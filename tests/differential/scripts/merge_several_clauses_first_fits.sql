-- shows: several MATCHED clauses: the first that fits, a condition that is NULL does not
-- oracle: delta
CREATE TABLE t (id INT, v INT, note STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 1, ''), (2, 2, ''), (3, NULL, ''), (4, 4, '');
MERGE INTO t USING (SELECT id FROM VALUES (1), (2), (3), (4), (5), (6) AS x(id)) s ON t.id = s.id
WHEN MATCHED AND t.v < 2 THEN DELETE
WHEN MATCHED AND t.v < 3 THEN UPDATE SET note = 'below three'
WHEN MATCHED AND NOT t.v < 3 THEN UPDATE SET note = 'three or more'
WHEN MATCHED THEN UPDATE SET note = 'unknown', v = -1
WHEN NOT MATCHED AND s.id = 5 THEN INSERT (id, note) VALUES (s.id, 'five')
WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id * 10, s.id);
