-- shows: CREATE TABLE AS SELECT, partitioned, then changes
CREATE TABLE t USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts')
AS SELECT 1 AS id, 'a' AS v, CAST(1.5 AS DECIMAL(10, 2)) AS p, 1L AS ts, '2024-01-01' AS dt UNION ALL SELECT 2, NULL, 2.5, 1L, '2024-01-02';
UPDATE t SET v = 'changed' WHERE id = 2;
