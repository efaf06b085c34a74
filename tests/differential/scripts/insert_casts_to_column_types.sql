-- shows: values of narrower types become the columns' types
CREATE TABLE t (id BIGINT, f DOUBLE, p DECIMAL(12, 2), s STRING, at TIMESTAMP) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t SELECT CAST(1 AS TINYINT), 1.5F, 3, 'x', DATE '2024-01-02';
INSERT INTO t SELECT 2, 7, 12.3, 5, TIMESTAMP '2024-01-02 03:04:05';
