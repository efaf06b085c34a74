from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from hudisql.errors import CorruptTableError
from hudisql.format.paths.partition_metadata import (
    PartitionMetadata,
    parse_partition_metadata,
    render_partition_metadata,
)


def test_the_marker_of_apache_hudi_is_written_again_byte_for_byte(golden) -> None:
    directory = Path(golden("cow_bootstrap_2part").table) / "region=eu" / "dt=2024-03-01"
    content = (directory / ".hoodie_partition_metadata").read_bytes()
    date = content.decode().splitlines()[1]
    moment = datetime.strptime(date, "#%a %b %d %H:%M:%S UTC %Y").replace(tzinfo=UTC)
    metadata = parse_partition_metadata(content)
    assert metadata == PartitionMetadata("00000000000001", 2)
    assert render_partition_metadata(metadata, moment) == content


def test_a_marker_without_its_fields_is_damaged() -> None:
    with pytest.raises(CorruptTableError, match="partitionDepth"):
        parse_partition_metadata(b"commitTime=1\n")
