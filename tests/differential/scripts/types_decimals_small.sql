-- shows: decimals of few digits survive a merge of their file
CREATE TABLE t (id INT, a DECIMAL(5, 0), b DECIMAL(9, 4), c DECIMAL(18, 3), note STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 99999, 12345.6789, 123456789012345.678, 'x'), (2, -1, -0.0001, 0.001, 'y');
UPDATE t SET note = 'changed' WHERE id = 2;
INSERT INTO t VALUES (3, 5, 5, 5, 'z');
