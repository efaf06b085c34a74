"""Stores events that cannot become rows in a separate Hudi table, partitioned by the day of the event.

Their record key is their place in the source: an event that is read again after a failure is stored once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa

from hudisql.errors import PathExistsError
from hudisql.format import table_properties as keys
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.ingest.flush import OPERATION_TYPE
from hudisql.ingest.table_buffer import BadEvent
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.properties.new_table import NewTable, publish_new_table
from hudisql.write.execution.commit_files import commit_files
from hudisql.write.execution.driver_upsert import upsert_on_driver, with_keys
from hudisql.write.execution.write_context import WrittenFile
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.keygen.partition_paths import PartitionPaths
from hudisql.write.transaction.commit import OpenCommit

SUFFIX: Final = "_dead_letter"
"""What the table's name and location add to those of the table that the events were for."""
SCHEMA: Final = pa.schema(
    [
        pa.field("event", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("event_time", pa.timestamp("us", "UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("reason", pa.string()),
        pa.field("day", pa.string()),
    ]
)


def open_dead_letter_table(storage: Storage, base_path: str, database: str, name: str) -> HudiTable:
    """The table at `base_path`, created if it does not exist. Raises CorruptTableError, StorageError."""
    if not storage.exists(f"{base_path}/{keys.PROPERTIES_FILE}"):
        new = NewTable(
            name,
            database,
            keys.COPY_ON_WRITE,
            ("event",),
            ("day",),
            others={keys.CREATE_SCHEMA: avro_from_arrow(SCHEMA, name)},
        )
        with suppress(PathExistsError):  # another worker made it
            publish_new_table(storage, base_path, new, datetime.now(UTC))
    return open_table(storage, base_path)


def write_bad_events(table: HudiTable, events: Sequence[BadEvent], options: WriteOptions) -> None:
    """Upsert the events in one commit."""
    rows = _rows(events)

    def write(commit: OpenCommit) -> list[WrittenFile]:
        paths = PartitionPaths(commit.table)
        keyed, _ = with_keys(rows, commit.table, options, paths)
        return upsert_on_driver(commit, options, paths, pa.Table.from_batches([keyed]))

    commit_files(table, OPERATION_TYPE, table.schema, write, concurrency=options.concurrency)


def _rows(events: Sequence[BadEvent]) -> pa.RecordBatch:
    moments = np.array([event.timestamp for event in events], "datetime64[ms]")
    columns = [
        pa.array([event.key_text for event in events]),
        pa.array([event.source[0] for event in events]),
        pa.array([event.source[1] for event in events], pa.int32()),
        pa.array([event.offset for event in events], pa.int64()),
        pa.array(moments.astype("datetime64[us]")).cast(SCHEMA.field("event_time").type),
        pa.array([event.key for event in events], pa.binary()),
        pa.array([event.value for event in events], pa.binary()),
        pa.array([event.reason for event in events]),
        pa.array(np.datetime_as_string(moments, "D").tolist()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
