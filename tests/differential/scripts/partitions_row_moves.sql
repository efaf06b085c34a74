-- shows: UPDATE of the partition column
-- rows t: [[1, "a", "z"], [2, "b", "x"], [3, "c", "y"]]
-- why: a changed partition column moves the row; Hudi leaves the row as it is and says nothing
CREATE TABLE t (id INT, v STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y');
UPDATE t SET dt = 'z' WHERE id = 1;
