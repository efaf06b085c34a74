-- shows: directories without column names
CREATE TABLE t (id INT, v STRING, dt STRING) USING hudi PARTITIONED BY (dt)
TBLPROPERTIES (primaryKey = 'id', 'hoodie.datasource.write.hive_style_partitioning' = 'false');
INSERT INTO t VALUES (1, 'a', '2024-01-01'), (2, 'b', '2024-01-02');
UPDATE t SET v = 'changed' WHERE dt = '2024-01-02';
INSERT INTO t VALUES (3, 'c', '2024-01-03');
