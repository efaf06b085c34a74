"""Lines of plain PySpark over the names of Hudi tables: the same on Apache Hudi's bundle and by `install`."""

from __future__ import annotations

# `answers` takes what is compared; `spark` is the only other name.
LINES = """
from pyspark.sql import functions as sf

COLUMNS = "id INT, fare DOUBLE, ts INT, city STRING"


def rows(frame):
    return sorted(map(list, frame.select("id", "fare", "ts", "city").collect()))


spark.sql("DROP DATABASE IF EXISTS plain_lines CASCADE")
spark.sql("CREATE DATABASE plain_lines")
spark.sql(
    f"CREATE TABLE plain_lines.trips ({COLUMNS}) USING hudi PARTITIONED BY (city) "
    "TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts')"
)
spark.sql(
    "INSERT INTO plain_lines.trips VALUES (1, 1.5, 1, 'oslo'), (2, 2.5, 1, 'rome'), (3, 3.5, 1, 'rome')"
)
answers["columns"] = spark.table("plain_lines.trips").columns
answers["inserted"] = rows(spark.table("plain_lines.trips"))

changes = spark.createDataFrame([(1, 10.0, 2, "oslo"), (4, 4.5, 2, "oslo")], COLUMNS)
changes.createOrReplaceTempView("changes")
spark.sql(
    "MERGE INTO plain_lines.trips t USING changes s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)
answers["merged"] = rows(spark.read.table("plain_lines.trips"))
spark.sql("UPDATE plain_lines.trips SET fare = fare + 1 WHERE city = 'rome'")
spark.sql("DELETE FROM plain_lines.trips WHERE id = 3")
answers["changed"] = rows(spark.sql("SELECT * FROM plain_lines.trips"))

trips = spark.table("plain_lines.trips")
answers["filtered"] = rows(trips.where(sf.col("city") == "oslo"))
answers["joined"] = rows(trips.join(changes.select("id"), "id"))
answers["grouped"] = sorted(map(list, trips.groupBy("city").agg(sf.sum("fare")).collect()))
trips.where("city = 'oslo'").createOrReplaceTempView("oslo")
answers["view"] = sorted(
    map(list, spark.sql("SELECT id, t.fare FROM oslo JOIN plain_lines.trips t USING (id)").collect())
)

more = spark.createDataFrame([(5, 5.5, 3, "rome"), (1, 11.0, 3, "oslo")], COLUMNS)
more.write.insertInto("plain_lines.trips")
answers["by position"] = rows(spark.table("plain_lines.trips"))
first = spark.table("plain_lines.trips").where("id = 1").withColumn("fare", sf.lit(0.0))
first.drop(*trips.columns[:5]).write.insertInto("plain_lines.trips")
answers["read and written"] = rows(spark.table("plain_lines.trips"))

options = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
}
twice = spark.createDataFrame([(1, 1.0, 1, "oslo"), (1, 2.0, 2, "oslo"), (2, 3.0, 1, "rome")], COLUMNS)
twice.write.format("hudi").options(**options).partitionBy("city").saveAsTable("plain_lines.copies")
answers["saved"] = rows(spark.table("plain_lines.copies"))
more.write.insertInto("plain_lines.copies")
answers["saved and inserted"] = rows(spark.table("plain_lines.copies"))
more.write.format("hudi").options(**options).mode("ignore").saveAsTable("plain_lines.copies")
answers["ignored"] = rows(spark.table("plain_lines.copies"))
more.write.mode("overwrite").insertInto("plain_lines.copies")
answers["overwritten"] = rows(spark.table("plain_lines.copies"))
made = more.writeTo("plain_lines.made").using("hudi").partitionedBy(sf.col("city"))
made.tableProperty("primaryKey", "id").tableProperty("preCombineField", "ts").create()
answers["made"] = rows(spark.table("plain_lines.made"))

named = spark.sql("SELECT * FROM plain_lines.trips WHERE city = :city", args={"city": "rome"})
answers["named parameter"] = rows(named)
answers["position parameter"] = rows(spark.sql("SELECT * FROM plain_lines.trips WHERE id > ?", args=[1]))
formatted = spark.sql("SELECT t.* FROM plain_lines.trips t JOIN {new} n ON t.id = n.id", new=more)
answers["formatted"] = rows(formatted)
twice.write.format("hudi").mode("overwrite").saveAsTable("plain_lines.trips")
answers["replaced"] = rows(spark.table("plain_lines.trips"))
answers["exists"] = [spark.catalog.tableExists(f"plain_lines.{name}") for name in ("trips", "no_table")]
listed = spark.catalog.listTables("plain_lines")
answers["listed"] = sorted(table.name for table in listed if not table.isTemporary)
spark.catalog.dropTempView("changes")
spark.catalog.dropTempView("oslo")
spark.sql("DROP TABLE plain_lines.copies")
spark.sql("DROP DATABASE plain_lines CASCADE")
answers["dropped"] = spark.catalog.databaseExists("plain_lines")
"""
