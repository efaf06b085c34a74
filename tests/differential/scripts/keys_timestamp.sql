-- shows: how a timestamp is spelled as record key
CREATE TABLE t (at TIMESTAMP, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'at');
INSERT INTO t VALUES (TIMESTAMP '2024-01-01 10:00:00.123456', 'x'), (TIMESTAMP '1969-12-31 23:59:59', 'y');
UPDATE t SET v = 'changed' WHERE at < TIMESTAMP '2000-01-01 00:00:00';
