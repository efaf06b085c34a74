-- shows: MERGE that sets one field of a struct; the others stay
-- oracle: delta
CREATE TABLE t (id INT, st STRUCT<a: INT, b: STRUCT<c: STRING, d: INT>>) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t SELECT 1, named_struct('a', 1, 'b', named_struct('c', 'x', 'd', 2));
INSERT INTO t SELECT 2, NULL;
MERGE INTO t USING (SELECT 1 AS id, 'y' AS c UNION ALL SELECT 2, 'z') s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET st.b.c = s.c, st.a = t.st.a + 1;
