"""Indexes: key look-up by bloom filters and key columns, buckets, file pruning."""
