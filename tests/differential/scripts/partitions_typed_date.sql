-- shows: a date partition column
CREATE TABLE t (id INT, v STRING, day DATE) USING hudi PARTITIONED BY (day) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a', DATE '2024-01-01'), (2, 'b', DATE '2024-02-29');
UPDATE t SET v = 'late' WHERE day > DATE '2024-01-31';
INSERT INTO t VALUES (3, 'c', DATE '2024-02-29');
