-- shows: how doubles and floats are spelled as record key
CREATE TABLE t (d DOUBLE, f FLOAT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'd,f');
INSERT INTO t VALUES (1.0D, 0.1F, 'x'), (1.0E10D, 1.0E-5F, 'y'), (123456789.125D, 3.4E38F, 'z'), (1.0E-3D, 0.001F, 'w');
