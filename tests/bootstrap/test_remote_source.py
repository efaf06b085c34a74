"""A source in an object store: the walk over the folders above it ends at the bucket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hudisql.bootstrap.source import scan_path_source
from hudisql.errors import NoSuchTableError
from hudisql.storage import Storage
from hudisql.table.hudi_table import find_table_root, open_table
from tests.storage.servers import BUCKET, s3_server


@pytest.fixture(scope="module")
def storage() -> Iterator[Storage]:
    with s3_server() as settings:
        yield Storage(settings)


def test_a_folder_of_a_bucket_is_a_source(storage: Storage) -> None:
    storage.write(f"s3a://{BUCKET}/orders/dt=1/a.parquet", b"data")
    source = scan_path_source(storage, f"s3a://{BUCKET}/orders", None)
    assert [partition.location for partition in source.partitions] == [f"s3a://{BUCKET}/orders/dt=1"]


def test_a_path_of_a_bucket_without_a_table_is_no_table(storage: Storage) -> None:
    assert find_table_root(storage, f"s3a://{BUCKET}/orders/dt=1") is None
    with pytest.raises(NoSuchTableError, match="no Hudi table at"):
        open_table(storage, f"s3a://{BUCKET}")
