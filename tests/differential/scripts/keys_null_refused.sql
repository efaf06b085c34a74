-- shows: a NULL record key is refused, and nothing is written
CREATE TABLE t (id INT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a');
-- fails: both
INSERT INTO t VALUES (NULL, 'b');
