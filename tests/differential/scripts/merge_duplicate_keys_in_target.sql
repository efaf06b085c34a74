-- shows: MERGE changes every stored row that the condition meets, also those of one key
-- rows t: [[1, "a"], [1, "twin"], [2, "b"]]
-- why: rows that share a record key within a file group cannot be told apart, so a change of them is refused
-- oracle: delta
CREATE TABLE t (id INT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a');
INSERT INTO t VALUES (1, 'twin'), (2, 'b');
-- fails: hudisql several source rows change one row
MERGE INTO t USING (SELECT 1 AS id, 'both' AS v) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v;
