"""Bloom filters and hash buckets of record keys."""
