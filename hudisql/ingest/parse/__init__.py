"""Batches of Kafka values as Arrow columns of a table's schema: JSON, Avro and Debezium envelopes.

Values in, values out: knows neither Kafka nor Spark nor the table. A record that is not of the schema becomes
a `BadRecord` with its reason and never changes its neighbours.
"""
