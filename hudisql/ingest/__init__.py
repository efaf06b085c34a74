"""The ingest service: writes events from Kafka and from clients into Hudi tables, without Spark.

A worker owns tables, keeps their events in memory, and at each flush commits them by the project's own write
path. Needs the extra `hudisql[ingest]`. Must not know Spark or SQL text.
"""
