"""Prints rows of Iceberg tables as JSON, by Spark with Iceberg's runtime: a program for the oracle's Python.

    python spark_reader.py JAR METASTORE_URI QUERY…

In a query `ice` is the catalog of the metastore.
"""

import json
import sys

from pyspark.sql import SparkSession

ICEBERG = "org.apache.iceberg.spark"


def main(jar, uri, *queries):
    """Print a line for each query: its rows in one order, as lists of texts."""
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jar)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": f"{ICEBERG}.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.ice": f"{ICEBERG}.SparkCatalog",
        "spark.sql.catalog.ice.type": "hive",
        "spark.sql.catalog.ice.uri": uri,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for query in queries:
        print(
            "rows " + json.dumps(sorted([str(value) for value in row] for row in spark.sql(query).collect()))
        )
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
