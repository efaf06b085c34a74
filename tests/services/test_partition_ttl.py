"""Which partitions are older than they are to be kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hudisql.config.config_key import HudiConfig
from hudisql.errors import SettingsError
from hudisql.format.paths.partition_metadata import (
    PARTITION_METADATA_FILE,
    PartitionMetadata,
    render_partition_metadata,
)
from hudisql.format.timeline.instant import METADATA_BOOTSTRAP_INSTANT_TIME
from hudisql.services.partition_ttl import TtlOptions, TtlStrategy, expired_partitions, ttl_options
from tests.opened import open_at
from tests.table.conftest import TableDirectory

NOW = datetime.now(UTC)


def _ago(days: float) -> str:
    return f"{NOW - timedelta(days=days):%Y%m%d%H%M%S}000"


def _set_age(path: str | Path, days: float) -> None:
    then = (NOW - timedelta(days=days)).timestamp()
    os.utime(path, (then, then))


@pytest.fixture
def directory(make_table: Callable[..., TableDirectory]) -> TableDirectory:
    """`a` was made 40 days ago and written 5 days ago, `b` and `c` were written 30 and 20 days ago alone."""
    made = make_table()
    for name, created, written in (("a", 40, 5), ("b", 30, 30), ("c", 20, 20)):
        metadata = render_partition_metadata(PartitionMetadata(_ago(created), 1), NOW)
        made.file(f"dt={name}/{PARTITION_METADATA_FILE}", metadata)
        for age in {created, written}:
            made.base_file(f"dt={name}", name, _ago(age))
    for age in (40, 30, 20, 5):
        made.commit(_ago(age))
    return made


def _expired(made: TableDirectory, options: TtlOptions) -> list[str]:
    return [each.path for each in expired_partitions(open_at(made.path), options, NOW)]


def test_age_is_counted_from_the_last_write_or_from_the_first(directory: TableDirectory) -> None:
    by_creation = TtlStrategy.KEEP_BY_CREATION_TIME
    assert _expired(directory, TtlOptions(25)) == ["dt=b"]
    assert _expired(directory, TtlOptions(10)) == ["dt=b", "dt=c"]
    assert _expired(directory, TtlOptions(25, by_creation)) == ["dt=a", "dt=b"]
    # Hudi 1.2 drops all of them: its 50 days are seven hours.
    assert _expired(directory, TtlOptions(50)) == []
    assert _expired(directory, TtlOptions(50, by_creation)) == []


def test_partitions_are_chosen_and_counted_as_in_hudi(directory: TableDirectory) -> None:
    assert _expired(directory, TtlOptions(10, most_partitions=1)) == ["dt=b"]
    assert _expired(directory, TtlOptions(10, selected=("dt=c/", "dt=a", "dt=x"))) == ["dt=c"]
    directory.commit(_ago(1), "replacecommit", replaced={"dt=b": ("b",)})
    assert _expired(directory, TtlOptions(10)) == ["dt=c"]


def test_what_was_written_lately_without_an_instant_of_its_own_stays(directory: TableDirectory) -> None:
    log = directory.log_file("dt=b", "b", _ago(30), 1)
    assert _expired(directory, TtlOptions(10)) == ["dt=c"]
    _set_age(log, 11)
    assert _expired(directory, TtlOptions(10)) == ["dt=b", "dt=c"]


@pytest.mark.parametrize("strategy", list(TtlStrategy))
def test_a_bootstrap_is_as_old_as_its_files(
    make_table: Callable[..., TableDirectory], strategy: TtlStrategy
) -> None:
    made = make_table()
    metadata = PartitionMetadata(METADATA_BOOTSTRAP_INSTANT_TIME, 1)
    files = [
        made.file(f"dt=a/{PARTITION_METADATA_FILE}", render_partition_metadata(metadata, NOW)),
        made.base_file("dt=a", "a", METADATA_BOOTSTRAP_INSTANT_TIME),
    ]
    made.commit(METADATA_BOOTSTRAP_INSTANT_TIME)
    assert _expired(made, TtlOptions(10, strategy)) == []
    for path in files:
        _set_age(path, 11)
    assert _expired(made, TtlOptions(10, strategy)) == ["dt=a"]


def test_a_number_of_days_is_needed() -> None:
    with pytest.raises(
        SettingsError, match=r"days\.retain says how many days partitions are kept, and is not"
    ):
        ttl_options(HudiConfig(lambda _, default: default))
