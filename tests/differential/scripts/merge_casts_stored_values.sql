-- shows: MERGE stores values of other types by the ANSI rule; what does not fit fails
-- oracle: delta
CREATE TABLE t (id BIGINT, n INT, p DECIMAL(6, 2), s STRING, d DATE) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 1, 1.5, 'a', DATE '2024-01-01');
MERGE INTO t USING (SELECT 1 AS id, 7L AS n, 3 AS p, 9 AS s, TIMESTAMP '2024-05-06 07:08:09' AS d) s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET n = s.n, p = s.p, s = s.s, d = s.d;
-- fails: both
MERGE INTO t USING (SELECT 1 AS id, 3000000000L AS n) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n;
-- fails: both
UPDATE t SET n = 'seven' WHERE id = 1;
