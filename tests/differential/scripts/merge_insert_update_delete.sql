-- shows: MERGE with an update, a delete and an insert clause on the record key
CREATE TABLE t (id INT, name STRING, price DOUBLE, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO t VALUES (1, 'a', 1.0, 1), (2, 'b', 2.0, 1), (3, 'c', 3.0, 1);
MERGE INTO t USING (SELECT 1 AS id, 'a1' AS name, 10.0D AS price, 2L AS ts, 'u' AS flag UNION ALL
  SELECT 2, 'b1', 20.0D, 2L, 'd' UNION ALL SELECT 4, 'd1', 40.0D, 2L, 'i') s ON t.id = s.id
WHEN MATCHED AND s.flag = 'u' THEN UPDATE SET price = s.price, ts = s.ts
WHEN MATCHED AND s.flag = 'd' THEN DELETE
WHEN NOT MATCHED THEN INSERT (id, name, price, ts) VALUES (s.id, s.name, s.price, s.ts);
