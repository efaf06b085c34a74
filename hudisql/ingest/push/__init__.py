"""Rows that clients push: by HTTP or Arrow Flight into a write-ahead log, from there to the ingest worker.

A client is answered when its rows are durable in the log. The log's sequence numbers stand where Kafka's
offsets stand for topics. Must not know Spark, Kafka, or how tables are written.
"""
