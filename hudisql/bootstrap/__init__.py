"""Turning existing parquet tables into Hudi tables in place (RFC-12): scan, check, plan, commit."""
