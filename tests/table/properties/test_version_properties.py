"""Properties of version 9: of new tables, after an upgrade, and back in version 6."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudisql.errors import UnsupportedTableError
from hudisql.format import table_properties as keys
from hudisql.format.payload_classes import EVENT_TIME_PAYLOAD, LATEST_PAYLOAD
from hudisql.format.table_properties import TableProperties
from hudisql.table.properties.new_table import NewTable, new_table_properties
from hudisql.table.properties.version_properties import (
    begins_with_key_pairs,
    changes_to_version_6,
    changes_to_version_9,
    made_with_key_pairs,
)

NEW = NewTable("t", "db", keys.MERGE_ON_READ, ("id",), ("dt",), precombine="seq", version=9)
PACKAGE = "org.apache.hudi.keygen"


def _changed(values: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**values, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    ("table", "mode"),
    [
        (NEW, "EVENT_TIME_ORDERING"),
        (replace(NEW, precombine=None), "COMMIT_TIME_ORDERING"),
        (replace(NEW, payload_class=LATEST_PAYLOAD), "COMMIT_TIME_ORDERING"),
        (replace(NEW, payload_class=EVENT_TIME_PAYLOAD), "EVENT_TIME_ORDERING"),
    ],
)
def test_new_tables_name_a_merge_mode_and_no_payload(table: NewTable, mode: str) -> None:
    values = new_table_properties(table)
    found = TableProperties(values)
    assert (found.version, found.timeline_layout_version, found.record_merge_mode) == (9, 2, mode)
    assert found.payload_class is None
    assert found.get(keys.LEGACY_PAYLOAD_CLASS) == table.payload_class
    assert (found.key_generator_class, found.key_generator_type) == (None, "SIMPLE")
    assert found.ordering_fields == ((table.precombine,) if table.precombine else ())
    assert keys.PRECOMBINE_FIELD not in values


def test_payload_classes_become_merge_properties() -> None:
    package = "org.apache.hudi.common.model."
    partial = TableProperties(
        new_table_properties(replace(NEW, payload_class=f"{package}PartialUpdateAvroPayload"))
    )
    assert (partial.record_merge_mode, partial.partial_update_mode) == (
        "EVENT_TIME_ORDERING",
        "IGNORE_DEFAULTS",
    )
    dms = TableProperties(new_table_properties(replace(NEW, payload_class=f"{package}AWSDmsAvroPayload")))
    assert (dms.record_merge_mode, dms.partial_update_mode) == ("COMMIT_TIME_ORDERING", None)
    assert (dms.merge_property(keys.DELETE_FIELD), dms.merge_property(keys.DELETE_MARKER)) == ("Op", "D")
    with pytest.raises(UnsupportedTableError, match=r"no merge mode for .*FirstValueAvroPayload"):
        new_table_properties(replace(NEW, payload_class=f"{package}FirstValueAvroPayload"))


@pytest.mark.parametrize(
    "name",
    [
        *("PartialUpdateAvroPayload", "OverwriteNonDefaultsWithLatestAvroPayload", "AWSDmsAvroPayload"),
        *("EventTimeAvroPayload", "DefaultHoodieRecordPayload", "OverwriteWithLatestAvroPayload"),
    ],
)
def test_a_downgrade_gives_the_payload_class_back(name: str) -> None:
    payload = f"org.apache.hudi.common.model.{name}"
    values = new_table_properties(replace(NEW, payload_class=payload))
    downgraded = _changed(values, changes_to_version_6(TableProperties(values)))
    assert downgraded[keys.PAYLOAD_CLASS] == payload
    left = [key for key in downgraded if key.startswith(keys.MERGE_PROPERTY_PREFIX)]
    assert (left, keys.PARTIAL_UPDATE_MODE in downgraded) == ([], False)
    # Without the class the rule itself says which one it is; EventTimeAvroPayload has that of the default.
    del values[keys.LEGACY_PAYLOAD_CLASS]
    inferred = changes_to_version_6(TableProperties(values))[keys.PAYLOAD_CLASS]
    assert inferred == payload.replace("EventTimeAvro", "DefaultHoodieRecord")


def test_a_downgrade_keeps_the_rule_rather_than_the_class() -> None:
    payload = "org.apache.hudi.common.model.PartialUpdateAvroPayload"
    values = new_table_properties(replace(NEW, payload_class=payload))
    del values[keys.PARTIAL_UPDATE_MODE]
    assert changes_to_version_6(TableProperties(values))[keys.PAYLOAD_CLASS] == EVENT_TIME_PAYLOAD


def test_a_generator_that_makes_directory_names_is_refused() -> None:
    with pytest.raises(UnsupportedTableError, match="CustomKeyGenerator"):
        new_table_properties(replace(NEW, key_generator_class=f"{PACKAGE}.CustomKeyGenerator"))


@pytest.mark.parametrize(
    ("version", "generator", "record_key", "expected"),
    [
        (9, f"{PACKAGE}.ComplexKeyGenerator", ("id",), True),
        (9, "COMPLEX", ("id",), True),
        (9, "SIMPLE", ("id",), False),
        (9, "COMPLEX", (), False),
        (6, f"{PACKAGE}.ComplexKeyGenerator", ("id",), False),
        (6, f"{PACKAGE}.ComplexKeyGenerator", ("id", "dt"), True),
    ],
)
def test_one_key_column_of_the_complex_generator_is_a_pair_in_version_9(
    version: int, generator: str, record_key: tuple[str, ...], expected: bool
) -> None:
    assert begins_with_key_pairs(version, generator, record_key) is expected


def test_keys_stay_as_they_are_in_an_upgraded_table() -> None:
    made = {keys.VERSION: "9", keys.KEY_GENERATOR_TYPE: "COMPLEX", keys.RECORD_KEY_FIELDS: "id"}
    for initial, expected in (("9", True), ("6", False)):
        assert made_with_key_pairs(TableProperties({**made, keys.INITIAL_VERSION: initial})) is expected


@pytest.mark.parametrize(
    ("kind", "payload", "ordering", "mode"),
    [
        (keys.COPY_ON_WRITE, None, "seq", "EVENT_TIME_ORDERING"),
        (keys.COPY_ON_WRITE, None, None, "EVENT_TIME_ORDERING"),
        (keys.COPY_ON_WRITE, LATEST_PAYLOAD, "seq", "COMMIT_TIME_ORDERING"),
        (keys.MERGE_ON_READ, LATEST_PAYLOAD, "seq", "EVENT_TIME_ORDERING"),
        (keys.MERGE_ON_READ, LATEST_PAYLOAD, None, "COMMIT_TIME_ORDERING"),
        (keys.MERGE_ON_READ, EVENT_TIME_PAYLOAD, None, "EVENT_TIME_ORDERING"),
    ],
)
def test_an_upgrade_chooses_the_merge_mode_as_hudi_does(
    kind: str, payload: str | None, ordering: str | None, mode: str
) -> None:
    table = replace(NEW, table_type=kind, payload_class=payload, precombine=ordering, version=6)
    values = new_table_properties(table)
    upgraded = _changed(values, changes_to_version_9(TableProperties(values)))
    found = TableProperties(upgraded)
    assert (found.version, found.record_merge_mode, found.payload_class) == (9, mode, None)
    assert upgraded[keys.INITIAL_VERSION] == "6"
    downgraded = TableProperties(_changed(upgraded, changes_to_version_6(found)))
    by_event_time = mode == "EVENT_TIME_ORDERING"
    assert downgraded.payload_class == (EVENT_TIME_PAYLOAD if by_event_time else LATEST_PAYLOAD)
    assert (downgraded.version, downgraded.timeline_layout_version) == (6, 1)
    assert (downgraded.precombine_field, downgraded.key_generator_class) == (
        ordering,
        f"{PACKAGE}.SimpleKeyGenerator",
    )


@pytest.mark.parametrize(
    "changes",
    [
        {keys.ORDERING_FIELDS: "seq,more"},
        {keys.KEY_GENERATOR_TYPE: "TIMESTAMP"},
        {keys.RECORD_MERGE_MODE: "CUSTOM"},
        {keys.PARTIAL_UPDATE_MODE: "FILL_UNAVAILABLE"},
        {keys.MERGE_PROPERTY_PREFIX + keys.DELETE_FIELD: "gone"},
    ],
)
def test_what_version_6_does_not_have_is_not_downgraded(changes: dict[str, str]) -> None:
    with pytest.raises(UnsupportedTableError, match="version 6"):
        changes_to_version_6(TableProperties(new_table_properties(NEW) | changes))


def test_pairs_of_one_key_column_are_not_for_version_6() -> None:
    values = new_table_properties(replace(NEW, partition_fields=("region", "dt")))
    with pytest.raises(UnsupportedTableError, match="are 'id:value'"):
        changes_to_version_6(TableProperties(values))
    several = new_table_properties(replace(NEW, record_key=("id", "dt"), partition_fields=("region", "dt")))
    assert changes_to_version_6(TableProperties(several))[keys.VERSION] == "6"
