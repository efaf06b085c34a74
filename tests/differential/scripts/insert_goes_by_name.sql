-- shows: INSERT goes by the names of the query's columns where all are the table's, else by position
CREATE TABLE t (id INT, first STRING, last STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t SELECT 1 AS id, 'Smith' AS last, 'Ann' AS first;
INSERT INTO t SELECT 2 AS ID, 'Smith' AS LAST, 'Ann' AS First;
INSERT INTO t SELECT 3 AS id, 'Smith' AS last, 'Ann' AS x;
INSERT INTO t VALUES (4, 'Smith', 'Ann');
INSERT INTO t WITH s AS (SELECT 5 AS id, 'Smith' AS last, 'Ann' AS first) SELECT * FROM s;
INSERT INTO t SELECT 6 AS id, 'Smith' AS last, 'Ann' AS first UNION ALL SELECT 7 AS id, 'Bo' AS first, 'Lee' AS last;
-- fails: both names the column 'first' twice
INSERT INTO t SELECT 8 AS id, 'Smith' AS first, 'Ann' AS first;
INSERT INTO t SELECT 11 AS x, 'Smith' AS first, 'Ann' AS first;
-- fails: both cannot be stored
INSERT INTO t SELECT 9 AS last, 'Smith' AS id, 'Ann' AS first;
-- fails: both takes 3 columns
INSERT INTO t SELECT 10 AS id, 'Smith' AS last, 'Ann' AS first, 'x' AS more;
CREATE TABLE u (id INT, last STRING, first STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO u SELECT * FROM t;
INSERT INTO t SELECT * FROM u WHERE id = 1;
CREATE TABLE o (id INT, first STRING, last STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT OVERWRITE o SELECT last, id + 20 AS id, first FROM u;
