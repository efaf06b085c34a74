-- shows: UPDATE with a condition on a partitioned copy-on-write table; untouched rows keep their commit
-- meta: _hoodie_record_key, _hoodie_partition_path, commit
CREATE TABLE t (id INT, name STRING, price DOUBLE, ts BIGINT, dt STRING) USING hudi PARTITIONED BY (dt)
TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO t VALUES (1, 'a', 1.0, 1, '2024-01-01'), (2, 'b', 2.0, 1, '2024-01-01'), (3, 'c', 3.0, 1, '2024-01-02');
UPDATE t SET price = price * 2, name = concat(name, '!') WHERE price >= 2 AND dt = '2024-01-01';
SELECT * FROM t WHERE price > 2 ORDER BY id;
SHOW PARTITIONS t;
