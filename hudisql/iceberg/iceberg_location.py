"""Where the Iceberg table of a Hudi table lies, and the names by which Iceberg readers open files."""

from __future__ import annotations

import re

from hudisql.format.timeline.timeline_layout import iceberg_directory
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable


def iceberg_location(table: HudiTable) -> str:
    """The directory of the Iceberg table, a part of the Hudi table's own metadata."""
    return iceberg_directory(table.base_path)


def metadata_directory(table: HudiTable) -> str:
    """The directory of the metadata files, manifest lists and manifests."""
    return join(iceberg_location(table), "metadata")


def data_directory(table: HudiTable) -> str:
    """The directory of the files that are written for slices with log files."""
    return join(iceberg_location(table), "data")


def reader_uri(table: HudiTable, path: str) -> str:
    """The path as Iceberg readers open it: `file:/…`, `s3://…`, `hdfs://…`."""
    return re.sub(r"^s3[an]://", "s3://", table.storage.hadoop_uri(path))
