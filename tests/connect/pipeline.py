"""Definitions of a declarative pipeline of Spark 4.1 that reads a Hudi table and writes another one.

`spark-pipelines` imports this file; PIPELINE_DIRECTORY has the table `trips`.
"""

import os

from pyspark import pipelines
from pyspark.sql import SparkSession

spark = SparkSession.active()
directory = os.environ["PIPELINE_DIRECTORY"]
trips = f"{directory}/trips"


@pipelines.materialized_view
def cities():
    return spark.read.format("hudi").load(trips).groupBy("city").count()


pipelines.create_sink(
    "copies",
    "hudi",
    {
        "path": f"{directory}/sink",
        "hoodie.table.name": "sink",
        "hoodie.datasource.write.recordkey.field": "id",
    },
)


@pipelines.append_flow(target="copies")
def copies_of_trips():
    return spark.readStream.format("hudi").load(trips).select("id", "fare")
