-- shows: an int partition column
CREATE TABLE t (id INT, v STRING, month INT) USING hudi PARTITIONED BY (month) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 12);
UPDATE t SET v = 'late' WHERE month > 1;
SELECT month, count(*) AS n FROM t WHERE month < 10 GROUP BY month;
