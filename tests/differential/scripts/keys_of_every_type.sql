-- shows: how record keys of several types are spelled
CREATE TABLE t (l BIGINT, s STRING, d DECIMAL(10, 2), day DATE, b BOOLEAN, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'l,s,d,day,b');
INSERT INTO t VALUES (1, 'a:b,c', 1.50, DATE '2024-01-01', true, 'x'), (-7, 'ü', -0.05, DATE '1969-12-31', false, 'y');
