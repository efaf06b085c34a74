"""Where the rows of a record key are: key look-up by bloom filters and key columns, buckets, file pruning."""
