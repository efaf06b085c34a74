-- shows: UPDATE of the record key and of the partition column
-- oracle: delta
CREATE TABLE t (id INT, v STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y');
UPDATE t SET id = id + 10 WHERE dt = 'x';
UPDATE t SET dt = concat(dt, '2') WHERE id = 12;
