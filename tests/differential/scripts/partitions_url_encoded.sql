-- shows: partition values with signs that a directory's name has only in escaped form
CREATE TABLE t (id INT, v STRING, place STRING) USING hudi PARTITIONED BY (place)
TBLPROPERTIES (primaryKey = 'id', 'hoodie.datasource.write.partitionpath.urlencode' = 'true');
INSERT INTO t VALUES (1, 'a', 'a/b'), (2, 'b', 'c:d e'), (3, 'c', 'plain');
UPDATE t SET v = 'changed' WHERE id = 1;
INSERT INTO t VALUES (4, 'd', 'a/b');
