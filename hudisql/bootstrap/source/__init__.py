"""What stands in the source: its files, partitions and parquet footers."""
