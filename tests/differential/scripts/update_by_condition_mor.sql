-- shows: UPDATE with a condition on a merge-on-read table
CREATE TABLE t (id INT, name STRING, price DOUBLE, ts BIGINT, dt STRING) USING hudi PARTITIONED BY (dt)
TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'mor');
INSERT INTO t VALUES (1, 'a', 1.0, 1, '2024-01-01'), (2, 'b', 2.0, 1, '2024-01-01'), (3, 'c', 3.0, 1, '2024-01-02');
UPDATE t SET price = price * 2, name = concat(name, '!') WHERE price >= 2;
UPDATE t SET price = -1 WHERE id = 2;
SELECT * FROM t WHERE price > 2 ORDER BY id;
