"""The source: its files, partitions and parquet footers."""
