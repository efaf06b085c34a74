-- shows: NULL as a partition's value
CREATE TABLE t (id INT, v STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a', NULL), (2, 'b', 'x');
SELECT * FROM t WHERE dt IS NULL;
