-- shows: INSERT OVERWRITE whose query reads the table itself
CREATE TABLE t (id INT, v STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'y');
INSERT OVERWRITE t PARTITION (dt = 'y') SELECT id, upper(v) FROM t WHERE dt = 'y' AND id > 2;
