-- shows: INSERT OVERWRITE in dynamic mode replaces the partitions that get rows
CREATE TABLE t (id INT, v STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'y');
SET hoodie.datasource.overwrite.mode = dynamic;
INSERT OVERWRITE t VALUES (4, 'd', 'y'), (5, 'e', 'z');
