-- shows: new columns are NULL in old rows and take values at once
CREATE TABLE t (id INT, v STRING, ts BIGINT, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO t VALUES (1, 'a', 1, 'x'), (2, 'b', 1, 'y');
ALTER TABLE t ADD COLUMNS (extra STRING, n INT);
SELECT id, extra, n FROM t;
INSERT INTO t VALUES (3, 'c', 1, 'new', 7, 'x');
UPDATE t SET extra = 'set' WHERE id = 2;
