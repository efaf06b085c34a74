"""Apache Hudi's on-disk format (table version 6) as plain values and bytes; knows no Spark and no catalog."""
