"""Avro containers and rows, decoded and encoded as whole columns."""
