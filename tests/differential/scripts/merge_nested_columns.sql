-- shows: MERGE that writes a struct and a list as a whole
CREATE TABLE t (id INT, st STRUCT<a: INT, b: STRING>, li ARRAY<INT>, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO t SELECT 1, named_struct('a', 1, 'b', 'x'), array(1), 1L;
MERGE INTO t USING (SELECT 1 AS id, named_struct('a', 2, 'b', 'y') AS st, array(2, 3) AS li, 2L AS ts UNION ALL SELECT 2, named_struct('a', 3, 'b', NULL), NULL, 2L) s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
