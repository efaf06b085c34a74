"""The files that savepoints protect from cleans.

Follows `HoodieSavepointMetadata` and `CleanPlanner.getSavepointedDataFiles` of Hudi 0.15.
"""

from __future__ import annotations

from hudisql.format.avro_container import load_codec
from hudisql.format.instant import SAVEPOINT
from hudisql.table.hudi_table import HudiTable


def savepointed_files(table: HudiTable) -> frozenset[str]:
    """The names of all files of the completed savepoints, without their partitions, as Hudi compares them.

    Raises CorruptTableError, StorageError.
    """
    paths = [table.instant_path(each) for each in table.timeline.completed if each.action == SAVEPOINT]
    codec = load_codec("HoodieSavepointMetadata")
    return frozenset(
        name
        for path, content in zip(paths, table.storage.read_files(paths), strict=True)
        for partition in codec.decode(content, path)["partitionMetadata"].values()
        for name in partition["savepointDataFile"]
    )
