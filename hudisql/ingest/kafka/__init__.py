"""Kafka as the source of events, and as what spreads tables over workers."""
