"""Incremental tables: Hudi tables that a query defines and REFRESH INCREMENTAL TABLE keeps up to date."""
