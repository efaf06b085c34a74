-- shows: DefaultHoodieRecordPayload keeps the stored row against an upsert that is older
CREATE TABLE t (id INT, v STRING, ts BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', payloadClass = 'org.apache.hudi.common.model.DefaultHoodieRecordPayload');
SET hoodie.spark.sql.insert.into.operation = upsert;
SET hoodie.datasource.write.payload.class = org.apache.hudi.common.model.DefaultHoodieRecordPayload;
INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 10), (3, 'c', 10);
INSERT INTO t VALUES (1, 'older', 5), (2, 'newer', 15), (3, 'equal', 10);
