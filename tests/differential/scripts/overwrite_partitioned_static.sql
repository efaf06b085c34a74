-- shows: INSERT OVERWRITE of a partitioned table without a PARTITION clause, static by default
CREATE TABLE t (id INT, v STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y');
INSERT OVERWRITE t VALUES (3, 'c', 'y');
