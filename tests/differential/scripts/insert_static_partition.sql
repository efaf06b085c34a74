-- shows: INSERT INTO a named partition, and into a partly named one
CREATE TABLE t (id INT, v STRING, region STRING, dt STRING) USING hudi PARTITIONED BY (region, dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t PARTITION (region = 'eu', dt = 'd1') VALUES (1, 'a'), (2, 'b');
INSERT INTO t PARTITION (region = 'us', dt) SELECT 3, 'c', 'd2';
