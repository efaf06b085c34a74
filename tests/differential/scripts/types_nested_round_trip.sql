-- shows: structs, lists, maps and their mixtures, inserted, updated as a whole and read back
CREATE TABLE t (id INT, st STRUCT<a: INT, b: STRUCT<c: STRING, d: ARRAY<INT>>>, li ARRAY<STRUCT<k: STRING, v: DOUBLE>>, ma MAP<STRING, ARRAY<INT>>)
USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t SELECT 1, named_struct('a', 1, 'b', named_struct('c', 'x', 'd', array(1, 2))), array(named_struct('k', 'p', 'v', 1.0D)), map('m', array(1));
INSERT INTO t SELECT 2, named_struct('a', CAST(NULL AS INT), 'b', named_struct('c', CAST(NULL AS STRING), 'd', CAST(NULL AS ARRAY<INT>))), array(), map();
INSERT INTO t SELECT 3, NULL, NULL, NULL;
UPDATE t SET ma = map('n', array(7, 8)), st = named_struct('a', 9, 'b', named_struct('c', 'y', 'd', array(3))) WHERE id = 1;
SELECT id, st.b.c AS c, get(li, 0).k AS k, ma['n'] AS found FROM t;
