-- shows: INSERT OVERWRITE of a table without partitions
CREATE TABLE t (id INT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a'), (2, 'b');
INSERT OVERWRITE t VALUES (3, 'c');
INSERT INTO t VALUES (2, 'after');
