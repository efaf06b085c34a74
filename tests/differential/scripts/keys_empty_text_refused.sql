-- shows: an empty text as the only record key is refused
CREATE TABLE t (id STRING, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES ('a', 'a');
-- fails: both
INSERT INTO t VALUES ('', 'b');
