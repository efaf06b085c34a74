"""DuckDB and PyIceberg as independent readers of a published table, where they are installed.

DuckDB comes first: it misread nothing in the tests, while PyIceberg 0.12 reads NULL of a list of structs as
an empty list. Both are asked for tables in the local file system alone, since stores need settings of their
own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from hudisql.errors import UnsupportedTableError
from hudisql.iceberg.iceberg_schema import children, is_list
from hudisql.iceberg.row_sums import RowSums, no_rows, sum_rows_by
from hudisql.read.files.conform import batch_of, conform_array

_BATCH_ROWS: Final = 16 * 1024
_EXTENSIONS: Final = ("parquet", "avro", "iceberg")


class IcebergReader(StrEnum):
    """Who reads the rows of the Iceberg table."""

    AUTO = "auto"
    DUCKDB = "duckdb"
    PYICEBERG = "pyiceberg"
    HUDISQL = "hudisql"


@dataclass(frozen=True)
class OtherReader:
    """A reader that shares no code with hudisql: `label` names it, `read` gives all rows of a table by its
    metadata file and snapshot id.
    """

    label: str
    read: Callable[[str, int], Iterator[pa.RecordBatch]]


def choose_reader(reader: IcebergReader, metadata_file: str, schema: pa.Schema) -> OtherReader | None:
    """The reader for a table with this metadata file and these columns; None for hudisql's own.

    Raises UnsupportedTableError if the reader is named, and not installed or not able to read the table.
    """
    if reader is IcebergReader.HUDISQL:
        return None
    problems: dict[IcebergReader, str | OtherReader] = {}
    if reader in (IcebergReader.AUTO, IcebergReader.DUCKDB):
        problems[IcebergReader.DUCKDB] = _duckdb(metadata_file)
    if reader in (IcebergReader.AUTO, IcebergReader.PYICEBERG):
        problems[IcebergReader.PYICEBERG] = _pyiceberg(metadata_file, schema)
    for found in problems.values():
        if isinstance(found, OtherReader):
            return found
    if reader is IcebergReader.AUTO:
        return None
    raise UnsupportedTableError(
        f"{reader} does not read {metadata_file}: {problems[reader]}",
        hint="reader => 'hudisql' reads the Iceberg metadata by hudisql itself",
    )


def sums_by_group(
    reader: OtherReader, metadata_file: str, snapshot_id: int, schema: pa.Schema, keys: list[str]
) -> Mapping[int, RowSums]:
    """The sums of the rows by the `group_number` of their values in the columns `keys`, in one scan.

    Memory: a batch and the sums. Raises the reader's errors.
    """
    groups: dict[int, RowSums] = {}
    for batch in reader.read(metadata_file, snapshot_id):
        columns = [conform_array(batch.column(field.name), field.type) for field in schema]
        for group, sums in sum_rows_by(batch_of(columns, schema, batch.num_rows), keys).items():
            groups[group] = groups.get(group, no_rows(len(schema))) + sums
    return groups


def _duckdb(metadata_file: str) -> OtherReader | str:
    if not metadata_file.startswith("file:"):
        return "it is asked for tables in the local file system alone"
    if find_spec("duckdb") is None:
        return "it is not installed (pip install duckdb duckdb-extension-iceberg)"
    import duckdb

    try:
        connect_duckdb().close()
    except duckdb.Error as error:
        return f"its extension iceberg cannot be loaded: {error}"
    return OtherReader(f"DuckDB {duckdb.__version__}", _read_by_duckdb)


def connect_duckdb() -> Any:
    """A connection of DuckDB that reads Iceberg tables, by the extensions of PyPI or those of the user.

    Raises duckdb.Error without the extension.
    """
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in _EXTENSIONS:
        connection.load_extension(_extension(name))
    return connection


def _extension(name: str) -> str:
    """The file of the extension in its package, or else its name, by which DuckDB finds an installed one."""
    spec = find_spec(f"duckdb_extension_{name}")
    if spec is None or not spec.submodule_search_locations:
        return name
    return str(next(Path(spec.submodule_search_locations[0]).rglob("*.duckdb_extension")))


def _read_by_duckdb(metadata_file: str, snapshot_id: int) -> Iterator[pa.RecordBatch]:
    with connect_duckdb() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET preserve_insertion_order = false")  # which buffers rows
        path = metadata_file.removeprefix("file:").replace("'", "''")
        query = f"SELECT * FROM iceberg_scan('{path}', snapshot_from_id => {snapshot_id})"
        yield from connection.execute(query).to_arrow_reader(_BATCH_ROWS)


def _pyiceberg(metadata_file: str, schema: pa.Schema) -> OtherReader | str:
    if not metadata_file.startswith("file:"):
        return "it is asked for tables in the local file system alone"
    if find_spec("pyiceberg") is None:
        return "it is not installed (pip install pyiceberg)"
    misread = [field.name for field in schema if _has_list_of_structs(field.type)]
    if misread:
        return f"it reads NULL in {misread[0]}, a list of structs, as an empty list"
    import pyiceberg

    return OtherReader(f"PyIceberg {pyiceberg.__version__}", _read_by_pyiceberg)


def _has_list_of_structs(data_type: pa.DataType) -> bool:
    if is_list(data_type) and pa.types.is_struct(data_type.value_type):
        return True
    return any(_has_list_of_structs(kind) for _, kind in children(data_type))


def _read_by_pyiceberg(metadata_file: str, snapshot_id: int) -> Iterator[pa.RecordBatch]:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(metadata_file)
    yield from table.scan(snapshot_id=snapshot_id).to_arrow_batch_reader()
