-- shows: INSERT with a list of columns in another order; columns left out are NULL
-- oracle: delta
CREATE TABLE t (id INT, name STRING, price DOUBLE, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t (dt, price, id, name) VALUES ('x', 1.0, 1, 'a');
INSERT INTO t (dt, id, name, price) SELECT 'y', 2, 'b', NULL;
