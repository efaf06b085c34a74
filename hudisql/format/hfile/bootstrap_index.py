"""The bootstrap index: which external file holds the data columns of which file group (RFC-12).

Two HFiles below `.hoodie/.aux/.bootstrap`, one keyed by partition and one by file id, with Avro containers as
values; follows Hudi's `HFileBootstrapIndex` of table version 6. Knows paths and bytes, nothing of skeletons,
timelines or Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from hudisql.errors import CorruptTableError, NoSuchPathError
from hudisql.format.avro.avro_container import AvroRecordCodec, encode_bytes, load_codec
from hudisql.format.encoding.varints import encode_zigzag_varint
from hudisql.format.hfile.hfile import HFileReader, write_hfile
from hudisql.format.paths.external_file import ExternalFile
from hudisql.format.timeline.timeline_layout import auxiliary_directory
from hudisql.storage import Storage, join

_INDEX_FILE = "00000000-0000-0000-0000-000000000000-0_1-0-1_00000000000001.hfile"
_COMPARATOR = "org.apache.hudi.common.bootstrap.index.HFileBootstrapIndex$HoodieKVComparator"
_PARTITION_KEY = "part="
_FILE_ID_KEY = ";fileid="
_INDEX_INFO = b"INDEX_INFO"


@dataclass(frozen=True, slots=True)
class BootstrapMapping:
    """One file group of a bootstrapped table and its external file.

    Partition paths are relative to the two tables' base paths; `block_size` (bytes) is what Hadoop's file
    status of the external file says.
    """

    partition_path: str
    file_id: str
    source_partition_path: str
    external_file: ExternalFile
    block_size: int = 33_554_432


@dataclass(frozen=True, slots=True)
class BootstrapIndexInfo:
    """The header of an index file: the source's base path, creation time (epoch ms), number of keys."""

    bootstrap_base_path: str
    created_ms: int
    key_count: int


def partition_index_path(base_path: str) -> str:
    """The path of the index file keyed by partition."""
    return join(auxiliary_directory(base_path), ".bootstrap/.partitions", _INDEX_FILE)


def file_id_index_path(base_path: str) -> str:
    """The path of the index file keyed by partition and file id."""
    return join(auxiliary_directory(base_path), ".bootstrap/.fileids", _INDEX_FILE)


def has_bootstrap_index(storage: Storage, base_path: str) -> bool:
    """True if the table has a bootstrap index; CorruptTableError if only one of its two files is there."""
    paths = [partition_index_path(base_path), file_id_index_path(base_path)]
    missing = [path for path, info in zip(paths, storage.infos(paths), strict=True) if info is None]
    if len(missing) == 1:
        raise CorruptTableError(
            f"half of the bootstrap index is missing: {missing[0]}",
            hint="restore the file: without it bootstrapped file groups have no data columns",
        )
    return not missing


def write_bootstrap_index(
    storage: Storage,
    base_path: str,
    bootstrap_base_path: str,
    mappings: Iterable[BootstrapMapping],
    created_ms: int,
) -> None:
    """Write both index files from the table's mappings, in any order; replaces what is there, not atomic.

    `bootstrap_base_path` is stored as given (Hudi: the value of `hoodie.bootstrap.base.path`).
    """
    # Each file is sorted by its own keys: `part=a-b;fileid=` comes before `part=a;fileid=`, `a-b` after `a`.
    listed = sorted(mappings, key=lambda mapping: (mapping.partition_path.encode(), mapping.file_id))
    partitions = [list(group) for _, group in groupby(listed, key=lambda mapping: mapping.partition_path)]
    _write_index_file(
        storage,
        partition_index_path(base_path),
        ((_partition_key(group[0].partition_path), _partition_value(storage, group)) for group in partitions),
        BootstrapIndexInfo(bootstrap_base_path, created_ms, len(partitions)),
    )
    by_file_id = sorted((_file_id_key(mapping), number) for number, mapping in enumerate(listed))
    _write_index_file(
        storage,
        file_id_index_path(base_path),
        ((key, _file_id_value(storage, listed[number])) for key, number in by_file_id),
        BootstrapIndexInfo(bootstrap_base_path, created_ms, len(listed)),
    )


def read_bootstrap_index(
    storage: Storage, base_path: str, partitions: Collection[str] | None = None
) -> dict[tuple[str, str], ExternalFile]:
    """The external files by `(partition path, file id)`; empty if the table was not bootstrapped.

    With `partitions` only the index blocks of these are read. Raises CorruptTableError for a damaged index.
    """
    external_files: dict[tuple[str, str], ExternalFile] = {}
    for mapping in read_bootstrap_mappings(storage, base_path, partitions):
        external_files[mapping.partition_path, mapping.file_id] = mapping.external_file
    return external_files


def read_bootstrap_mappings(
    storage: Storage, base_path: str, partitions: Collection[str] | None = None
) -> Iterator[BootstrapMapping]:
    """The index as mappings, partition by partition in key order; nothing if the table has no index.

    With `partitions` only the index blocks of these are read, and only a missing index is looked at further.
    """
    if partitions is None and not has_bootstrap_index(storage, base_path):
        return
    path = partition_index_path(base_path)
    codec = load_codec("HoodieBootstrapPartitionMetadata")
    try:
        opened = storage.open_input(path)
    except NoSuchPathError:
        if has_bootstrap_index(storage, base_path):
            raise
        return
    with opened as source:
        reader = HFileReader(source, source.size(), path)
        entries = (
            reader.entries()
            if partitions is None
            else reader.find([_partition_key(partition) for partition in partitions])
        )
        for key, value in entries:
            yield from _mappings_of_partition(storage, codec, key, value, path)


def read_bootstrap_index_info(storage: Storage, base_path: str) -> BootstrapIndexInfo | None:
    """The header of the partition index; None if the table has no index."""
    if not has_bootstrap_index(storage, base_path):
        return None
    path = partition_index_path(base_path)
    with storage.open_input(path) as source:
        file_info = HFileReader(source, source.size(), path).read_file_info()
    if _INDEX_INFO not in file_info:
        raise CorruptTableError(f"{path} carries no {_INDEX_INFO.decode()}")
    info = load_codec("HoodieBootstrapIndexInfo").decode(file_info[_INDEX_INFO], path)
    return BootstrapIndexInfo(
        info["bootstrapBasePath"] or "", info["createdTimestamp"] or 0, info["numKeys"] or 0
    )


def _write_index_file(
    storage: Storage, path: str, entries: Iterable[tuple[bytes, bytes]], info: BootstrapIndexInfo
) -> None:
    encoded = load_codec("HoodieBootstrapIndexInfo").encode(
        {
            "version": 1,
            "bootstrapBasePath": info.bootstrap_base_path,
            "createdTimestamp": info.created_ms,
            "numKeys": info.key_count,
        }
    )
    with storage.open_output(path) as sink:
        write_hfile(entries, {_INDEX_INFO: encoded}, sink, comparator=_COMPARATOR)


def _partition_key(partition_path: str) -> bytes:
    return f"{_PARTITION_KEY}{partition_path}".encode()


def _file_id_key(mapping: BootstrapMapping) -> bytes:
    return f"{_PARTITION_KEY}{mapping.partition_path}{_FILE_ID_KEY}{mapping.file_id}".encode()


def _partition_value(storage: Storage, mappings: list[BootstrapMapping]) -> bytes:
    source_partitions = {mapping.source_partition_path for mapping in mappings}
    if len(source_partitions) > 1:
        raise ValueError(
            f"partition {mappings[0].partition_path!r} has several source partitions: "
            f"{sorted(source_partitions)}"
        )
    parts = [
        _VERSION,
        _present_text(mappings[0].source_partition_path),
        _present_text(mappings[0].partition_path),
        _PRESENT + encode_zigzag_varint(len(mappings)),
    ]
    for mapping in mappings:
        parts += [encode_bytes(mapping.file_id.encode()), _encode_file_status(storage, mapping)]
    parts.append(_END_OF_MAP)
    return load_codec("HoodieBootstrapPartitionMetadata").enclose(b"".join(parts))


def _file_id_value(storage: Storage, mapping: BootstrapMapping) -> bytes:
    return load_codec("HoodieBootstrapFilePartitionInfo").enclose(
        b"".join(
            (
                _VERSION,
                _present_text(mapping.source_partition_path),
                _PRESENT,
                _encode_file_status(storage, mapping),
                _present_text(mapping.partition_path),
            )
        )
    )


# Avro's binary form is built here: a general encoder tries every branch of the nested unions, which takes
# minutes for a table of a hundred thousand files.
_PRESENT = b"\x02"  # second branch of ["null", type]
_ABSENT = b"\x00"
_VERSION = b"\x00\x02"  # first branch of ["int", "null"], value 1
_END_OF_MAP = b"\x00"


def _present_text(text: str) -> bytes:
    return _PRESENT + encode_bytes(text.encode())


def _present_long(value: int) -> bytes:
    return _PRESENT + encode_zigzag_varint(value)


# Readers convert this to Hadoop's FileStatus, which requires a permission; no reader checks it.
_PERMISSION = b"".join(
    (
        _VERSION,
        _present_text("READ_WRITE"),
        _present_text("READ"),
        _present_text("READ"),
        _PRESENT + b"\x00",  # no sticky bit
    )
)


def _encode_file_status(storage: Storage, mapping: BootstrapMapping) -> bytes:
    """The external file as `HoodieFileStatus` in Avro's binary form."""
    external = mapping.external_file
    modified = _present_long(external.modification_time_ms)
    return b"".join(
        (
            _VERSION,
            _PRESENT + _VERSION + _present_text(storage.hadoop_uri(external.path)),
            _present_long(external.length),
            _PRESENT + b"\x00",  # not a directory
            _present_long(1),  # replication
            _present_long(mapping.block_size),
            modified,
            modified,  # time of access
            _PRESENT + _PERMISSION,
            _present_text(""),  # owner
            _present_text(""),  # group
            _ABSENT,  # symbolic link
        )
    )


def _mappings_of_partition(
    storage: Storage, codec: AvroRecordCodec, key: bytes, value: bytes, path: str
) -> Iterator[BootstrapMapping]:
    partition_path = key.decode().removeprefix(_PARTITION_KEY)
    record = codec.decode(value, f"the entry of partition '{partition_path}' in {path}")
    for file_id, status in (record.get("fileIdToBootstrapFile") or {}).items():
        uri = (status.get("path") or {}).get("uri")
        if uri is None or status.get("length") is None:
            raise CorruptTableError(
                f"the bootstrap index has no path or length for file id {file_id} of partition "
                f"'{partition_path}' ({path})"
            )
        yield BootstrapMapping(
            partition_path,
            file_id,
            record.get("bootstrapPartitionPath") or "",
            ExternalFile(storage.qualify(uri), status["length"], status.get("modificationTime") or 0),
            status.get("blockSize") or 0,
        )
