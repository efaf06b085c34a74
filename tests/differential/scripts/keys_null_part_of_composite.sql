-- shows: NULL and an empty text as parts of a complex key
CREATE TABLE t (a STRING, b STRING, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'a,b');
INSERT INTO t VALUES ('x', NULL, '1'), ('x', '', '2'), (NULL, 'y', '3');
