"""Projects of layers: directories of incremental tables and their tests, run by their lineage."""
