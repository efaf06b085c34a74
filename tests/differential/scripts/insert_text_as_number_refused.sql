-- shows: a text is not silently made a number
CREATE TABLE t (id INT, v INT) USING hudi TBLPROPERTIES (primaryKey = 'id');
-- fails: both
INSERT INTO t SELECT 1, 'seven';
SELECT count(*) AS n FROM t;
