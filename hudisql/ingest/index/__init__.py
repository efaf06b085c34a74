"""The ingest service's index: for each partition record key -> file group, in memory.

Tagging (`tag`) at a flush, new keys (`PendingKeys`) after its commit, `rebuild` from the table's file
slices, `refresh` after other writers' commits, `partition_indexes` for what is kept how long.
"""
