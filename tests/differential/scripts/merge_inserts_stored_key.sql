-- shows: a MERGE that inserts a row whose record key is stored, since ON compares more than the key
-- rows t: [[1, 10.0, "a", 5], [2, 20.0, "b", 5], [3, 1.0, "free", 1]]
-- why: hudisql stops the statement and names the keys; Hudi runs the UPDATE clause on the stored row, which the condition does not match
CREATE TABLE t (id INT, price DOUBLE, v STRING, ts INT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO t VALUES (1, 10.0, 'a', 5), (2, 20.0, 'b', 5);
MERGE INTO t USING (SELECT 3 AS id, CAST(1 AS DOUBLE) AS price, 'free' AS v, 1 AS ts) s ON t.id = s.id AND t.price = s.price
WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
-- fails: hudisql record keys that are stored: '1'; nothing was written
MERGE INTO t USING (SELECT 1 AS id, CAST(11 AS DOUBLE) AS price, 'new' AS v, 6 AS ts) s ON t.id = s.id AND t.price = s.price
WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
