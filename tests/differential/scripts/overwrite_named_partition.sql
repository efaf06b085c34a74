-- shows: INSERT OVERWRITE of one named partition, also of one that is not there
CREATE TABLE t (id INT, v STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y');
INSERT OVERWRITE t PARTITION (dt = 'y') VALUES (3, 'c');
INSERT OVERWRITE t PARTITION (dt = 'z') SELECT 4, 'd';
