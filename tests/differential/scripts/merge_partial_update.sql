-- shows: MERGE that sets some columns, by expressions over both sides
CREATE TABLE t (id INT, name STRING, n INT, price DOUBLE, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO t VALUES (1, 'a', 1, 1.5, 1), (2, 'b', NULL, 2.5, 1);
MERGE INTO t USING (SELECT 1 AS id, 10 AS n, 5L AS ts UNION ALL SELECT 2, 20, 5L) s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET n = t.n + s.n, price = t.price * 2, ts = s.ts;
