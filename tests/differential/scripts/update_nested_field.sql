-- shows: UPDATE of fields within structs
-- rows t: [[1, {"a": 1, "b": {"c": "x", "d": 101}}], [2, {"a": -1, "b": null}]]
-- why: Delta 4.0 makes a struct of NULLs of the NULL struct in a row that the first UPDATE does not meet
-- oracle: delta
CREATE TABLE t (id INT, st STRUCT<a: INT, b: STRUCT<c: STRING, d: INT>>) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t SELECT 1, named_struct('a', 1, 'b', named_struct('c', 'x', 'd', 2));
INSERT INTO t SELECT 2, named_struct('a', 5, 'b', CAST(NULL AS STRUCT<c: STRING, d: INT>));
UPDATE t SET st.b.d = st.a + 100 WHERE st.a = 1;
UPDATE t SET st.a = -1 WHERE st.b IS NULL;
