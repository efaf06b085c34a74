-- shows: hoodie.sql.insert.mode = strict and hoodie.sql.bulk.insert.enable, the older settings of INSERT INTO
CREATE TABLE c (id INT, v STRING, ts INT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
CREATE TABLE m (id INT, v STRING, ts INT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'mor');
CREATE TABLE k (id INT, v STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO c VALUES (1, 'a', 5);
INSERT INTO m VALUES (1, 'a', 5);
INSERT INTO k VALUES (1, 'a');
SET hoodie.sql.insert.mode = strict;
-- fails: both
INSERT INTO c VALUES (1, 'new', 6), (2, 'b', 1);
INSERT INTO c VALUES (3, 'x', 1), (3, 'y', 2);
INSERT INTO m VALUES (1, 'new', 6);
INSERT INTO k VALUES (1, 'again');
SET hoodie.sql.bulk.insert.enable = true;
-- fails: both
INSERT INTO k VALUES (2, 'b');
RESET hoodie.sql.insert.mode;
INSERT INTO c VALUES (1, 'replaced', 7);
INSERT INTO k VALUES (1, 'bulk');
SET hoodie.sql.insert.mode = non-strict;
INSERT INTO c VALUES (1, 'added', 8);
RESET hoodie.sql.insert.mode;
RESET hoodie.sql.bulk.insert.enable;
