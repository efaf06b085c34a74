-- shows: MERGE joined on a column that is not the record key: one source row changes many
-- oracle: delta
CREATE TABLE t (id INT, k STRING, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'x', 'a'), (2, 'x', 'b'), (3, 'y', 'c'), (4, NULL, 'd');
MERGE INTO t USING (SELECT 'x' AS k, 'x2' AS v UNION ALL SELECT CAST(NULL AS STRING), 'n2') s ON t.k = s.k
WHEN MATCHED AND t.id > 1 THEN UPDATE SET v = concat(t.v, s.v);
MERGE INTO t USING (SELECT CAST(NULL AS STRING) AS k, 'n3' AS v) s ON t.k <=> s.k
WHEN MATCHED THEN UPDATE SET v = s.v;
