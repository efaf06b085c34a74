"""The time that a partition's values name, or its first commit."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from hudisql.ingest.index.partition_time import partition_time, time_of_values
from tests.ingest.small_tables import SmallTable

DAY = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"dt": "2026-11-22"}, DAY),
        ({"dt": "20261122"}, DAY),
        ({"dt": 20261122}, DAY),
        ({"dt": "2026/11/22"}, DAY),
        ({"dt": date(2026, 11, 22)}, DAY),
        ({"at": datetime(2026, 11, 22)}, DAY),
        ({"hour": "2026-11-22-07"}, DAY.replace(hour=7)),
        ({"hour": "2026112207"}, DAY.replace(hour=7)),
        ({"region": "eu", "dt": "2026-11-22"}, DAY),
        ({"Year": 2026, "month": "11", "day": "22"}, DAY),
        ({"year": 2026, "month": 11, "day": 22, "hour": 7}, DAY.replace(hour=7)),
        ({"year": "2026", "month": "11"}, datetime(2026, 11, 1, tzinfo=UTC)),
        ({"year": 2026}, datetime(2026, 1, 1, tzinfo=UTC)),
        ({"year": None}, None),
        ({"month": 11, "day": 22}, None),
        ({"dt": "2026-13-22"}, None),
        ({"dt": "99991122"}, None),
        ({"dt": "eu-2026-11-22"}, None),
        ({"bucket": 7}, None),
        ({"account": "2026112207456"}, None),
        ({"dt": None}, None),
        ({}, None),
    ],
)
def test_values_that_name_a_time(values: dict[str, object], expected: datetime | None) -> None:
    assert time_of_values(list(values), list(values.values())) == expected


def test_a_partition_without_a_date_has_the_time_of_its_first_commit(tmp_path: Path) -> None:
    table = SmallTable(tmp_path)
    table.commit(
        3, [table.base_file("dt=eu", "f1", 3, ["a"]), table.base_file("dt=2026-11-22", "f2", 3, ["a"])]
    )
    opened = table.open()
    assert partition_time(opened, "dt=eu") == datetime(2026, 11, 1, 0, 3, tzinfo=UTC)
    assert partition_time(opened, "dt=2026-11-22") == DAY
    assert partition_time(opened, "dt=new") is None
