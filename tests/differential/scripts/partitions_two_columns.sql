-- shows: two partition columns, a complex key generator by itself, changes in one partition
CREATE TABLE t (id INT, v STRING, region STRING, dt STRING) USING hudi PARTITIONED BY (region, dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a', 'eu', '2024-01-01'), (2, 'b', 'eu', '2024-01-02'), (3, 'd', 'eu', '2024-01-02'), (1, 'c', 'us', '2024-01-01');
UPDATE t SET v = 'changed' WHERE region = 'eu';
DELETE FROM t WHERE dt = '2024-01-02' AND id = 2;
SHOW PARTITIONS t;
