-- shows: UPDATE under DefaultHoodieRecordPayload that leaves and that lowers the ordering column
-- rows t: [[1, "same", 10], [2, "lowered", 5]]
-- why: UPDATE sets what it says, also a lower ordering value; Hudi keeps the stored row
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', payloadClass = 'org.apache.hudi.common.model.DefaultHoodieRecordPayload');
INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 10);
UPDATE t SET v = 'same' WHERE id = 1;
UPDATE t SET v = 'lowered', ts = 5 WHERE id = 2;
