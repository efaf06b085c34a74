-- shows: a DataFrame upsert with _hoodie_is_deleted removes the rows for which it is true
CREATE TABLE t (id INT, name STRING, ts BIGINT, _hoodie_is_deleted BOOLEAN) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO t VALUES (1, 'a', 1, false), (2, 'b', 1, false), (3, 'c', 1, NULL);
WRITE upsert INTO t SELECT 2 AS id, 'b2' AS name, 2L AS ts, true AS _hoodie_is_deleted UNION ALL SELECT 3, 'c2', 2L, false;
