from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import CorruptTableError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.hfile.bootstrap_index import (
    BootstrapIndexInfo,
    BootstrapMapping,
    file_id_index_path,
    partition_index_path,
    read_bootstrap_index,
    read_bootstrap_index_info,
    read_bootstrap_mappings,
    write_bootstrap_index,
)
from hudisql.format.hfile.hfile import HFileReader
from hudisql.format.paths.external_file import ExternalFile
from hudisql.storage import Storage


@pytest.mark.parametrize(
    ("name", "file_count", "partition_count"),
    [
        ("cow_bootstrap_meta", 6, 3),
        ("cow_bootstrap_meta_v120", 6, 3),
        ("cow_bootstrap_2part", 8, 4),
        ("cow_bootstrap_meta_nonpart", 2, 1),
    ],
)
def test_indexes_of_apache_hudi_name_every_source_file_with_its_length(
    golden: Any, storage: Storage, name: str, file_count: int, partition_count: int
) -> None:
    table = golden(name)
    index = read_bootstrap_index(storage, table.table)
    sources = {info.path: info.length for info in storage.list_files(table.source) if ".parquet" in info.name}
    sources = {path: length for path, length in sources.items() if path.endswith(".parquet")}
    sources = {path: length for path, length in sources.items() if not path.rsplit("/", 1)[1].startswith(".")}
    assert {external.path: external.length for external in index.values()} == sources
    assert len(index) == file_count
    assert len({partition for partition, _ in index}) == partition_count
    for partition, file_id in index:
        assert list(Path(table.table, partition).glob(f"{file_id}_*.parquet"))
    info = read_bootstrap_index_info(storage, table.table)
    assert info is not None
    assert info.bootstrap_base_path == table.source
    assert info.key_count == partition_count


def test_only_the_wanted_partitions_are_returned(golden: Any, storage: Storage) -> None:
    table = golden("cow_bootstrap_meta").table
    index = read_bootstrap_index(storage, table, ["dt=2024-03-02", "dt=no-such"])
    assert {partition for partition, _ in index} == {"dt=2024-03-02"}
    assert len(index) == 2


def _mappings(count: int, partitions: list[str]) -> list[BootstrapMapping]:
    return [
        BootstrapMapping(
            partitions[number % len(partitions)],
            str(uuid.UUID(int=(number * 0x9E3779B97F4A7C15) % 2**64)),
            partitions[number % len(partitions)],
            ExternalFile(f"/data/é ü/part-{number:05d}.parquet", 2**33 + number, 1_700_000_000_000 + number),
        )
        for number in range(count)
    ]


def test_thousands_of_files_in_several_blocks_come_back_as_written(tmp_path: Path, storage: Storage) -> None:
    # `a`, `a-b` and `a;b` order otherwise as partitions than as the start of longer keys.
    mappings = _mappings(4000, ["dt=a", "dt=a-b", "dt=a;b", "dt=ä%3A", "region=eu/dt=1"])
    write_bootstrap_index(storage, str(tmp_path), "/data/é ü", mappings, 1_234)
    index = read_bootstrap_index(storage, str(tmp_path))
    assert index == {(mapping.partition_path, mapping.file_id): mapping.external_file for mapping in mappings}
    read = read_bootstrap_mappings(storage, str(tmp_path))
    assert sorted(read, key=lambda mapping: mapping.external_file.path) == mappings
    assert read_bootstrap_index_info(storage, str(tmp_path)) == BootstrapIndexInfo("/data/é ü", 1_234, 5)
    for partition in ("dt=a", "dt=a-b", "region=eu/dt=1"):
        chosen = read_bootstrap_index(storage, str(tmp_path), [partition])
        assert chosen == {key: external for key, external in index.items() if key[0] == partition}

    path = file_id_index_path(str(tmp_path))
    with storage.open_input(path) as source:
        reader = HFileReader(source, source.size(), path)
        entries = dict(reader.entries())
    assert Path(path).read_bytes().count(b"DATABLK*") > 100
    codec = load_codec("HoodieBootstrapFilePartitionInfo")
    for mapping in mappings[::97]:
        content = entries[f"part={mapping.partition_path};fileid={mapping.file_id}".encode()]
        value = codec.decode(content)
        assert codec.encode(value, sync=content[-16:]) == content
        assert value["bootstrapFileStatus"]["permission"]["userAction"] == "READ_WRITE"
        assert value["bootstrapFileStatus"]["path"]["uri"] == f"file:{mapping.external_file.path}"
        assert value["bootstrapFileStatus"]["length"] == mapping.external_file.length
        assert value["partitionPath"] == mapping.partition_path


def test_values_are_the_bytes_that_a_general_avro_encoder_makes(tmp_path: Path, storage: Storage) -> None:
    write_bootstrap_index(storage, str(tmp_path), "/data", _mappings(50, ["", "dt=ä"]), 1)
    for path, schema in (
        (partition_index_path(str(tmp_path)), "HoodieBootstrapPartitionMetadata"),
        (file_id_index_path(str(tmp_path)), "HoodieBootstrapFilePartitionInfo"),
    ):
        codec = load_codec(schema)
        with storage.open_input(path) as source:
            for _, value in HFileReader(source, source.size(), path).entries():
                record = codec.decode(value)
                assert record["version"] == 1
                assert codec.encode(record, sync=value[-16:]) == value


def test_entries_decode_and_encode_to_the_same_bytes_as_apache_hudi(golden: Any, storage: Storage) -> None:
    for path_of, schema in (
        (partition_index_path, "HoodieBootstrapPartitionMetadata"),
        (file_id_index_path, "HoodieBootstrapFilePartitionInfo"),
    ):
        path = path_of(golden("cow_bootstrap_2part").table)
        codec = load_codec(schema)
        with storage.open_input(path) as source:
            for _, value in HFileReader(source, source.size(), path).entries():
                assert codec.encode(codec.decode(value), sync=value[-16:]) == value


def test_a_table_without_index_has_no_external_files(tmp_path: Path, storage: Storage) -> None:
    assert read_bootstrap_index(storage, str(tmp_path)) == {}
    assert read_bootstrap_index_info(storage, str(tmp_path)) is None


def test_an_index_of_no_files_reads_as_empty(tmp_path: Path, storage: Storage) -> None:
    write_bootstrap_index(storage, str(tmp_path), "/data", [], 1)
    assert read_bootstrap_index(storage, str(tmp_path)) == {}


def test_half_an_index_is_an_error_that_names_the_missing_file(tmp_path: Path, storage: Storage) -> None:
    write_bootstrap_index(storage, str(tmp_path), "/data", _mappings(3, ["dt=a"]), 1)
    Path(file_id_index_path(str(tmp_path))).unlink()
    with pytest.raises(CorruptTableError, match=r"half of the bootstrap index.*fileids"):
        read_bootstrap_index(storage, str(tmp_path))


def test_rewriting_the_index_removes_hadoops_stale_checksum(tmp_path: Path, storage: Storage) -> None:
    path = Path(partition_index_path(str(tmp_path)))
    path.parent.mkdir(parents=True)
    stale = path.with_name(f".{path.name}.crc")
    stale.write_bytes(b"crc")
    write_bootstrap_index(storage, str(tmp_path), "/data", _mappings(3, ["dt=a"]), 1)
    assert not stale.exists()
