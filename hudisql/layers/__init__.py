"""Projects of layers: directories of incremental tables and tests, run in the order of their lineage."""
