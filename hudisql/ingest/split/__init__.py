"""The split point of a partition: from which day on its rows go to hash buckets, without an index."""
