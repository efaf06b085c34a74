"""The machine's time zone as Java takes it, and times without a zone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hudisql.format.encoding.java_time_zone import in_machine_zone, is_utc, local_time, machine_time_zone


@pytest.mark.parametrize(
    ("variable", "zone"),
    [("Europe/Berlin", "Europe/Berlin"), (":Asia/Tokyo", "Asia/Tokyo"), ("/nowhere", "UTC")],
)
def test_the_machines_zone_is_the_environments(
    monkeypatch: pytest.MonkeyPatch, variable: str, zone: str
) -> None:
    monkeypatch.setenv("TZ", variable)
    assert machine_time_zone() == zone


def test_times_go_into_the_machines_zone_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    moment = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    local = in_machine_zone(moment).replace(tzinfo=None)
    assert local.isoformat() == "2024-01-02T04:04:05"
    assert local_time(local) == moment


def test_a_zone_that_java_does_not_know_is_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Nowhere/Land")
    moment = datetime(2024, 1, 2, tzinfo=UTC)
    assert local_time(moment.replace(tzinfo=None)) == moment
    assert not is_utc("Europe/London")
    assert is_utc("Etc/UTC")
