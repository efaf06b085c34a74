-- shows: ALTER TABLE DROP PARTITION, then rows into the partition again
CREATE TABLE t (id INT, v STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y');
ALTER TABLE t DROP PARTITION (dt = 'y');
SELECT * FROM t;
INSERT INTO t VALUES (3, 'c', 'y');
