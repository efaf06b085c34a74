"""Partition paths of timestamp-based and custom key generators, and what is said where settings lack."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

from hudisql.errors import UnsupportedTableError
from hudisql.format.table_properties import TableProperties
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable
from hudisql.write.keygen.key_generator import KeyGenerator, key_generator_of

_GENERATOR = "hoodie.table.keygenerator.class"
_FIELDS = "hoodie.table.partition.fields"
_SPEC = "hoodie.datasource.write.partitionpath.field"
_TIMES = "hoodie.keygen.timebased"
_OLD_TIMES = "hoodie.deltastreamer.keygen.timebased"
_SECONDS = {
    f"{_TIMES}.timestamp.type": "UNIX_TIMESTAMP",
    f"{_TIMES}.output.dateformat": "yyyy/MM",
    f"{_TIMES}.timezone": "UTC",
}
ROWS = pa.record_batch(
    {
        "region": ["eu", "a/b", None],
        "at": pa.array([0, 86_400 * 40, 86_400 * 400], pa.int64()),
        "st": pa.array([{"a": 1}, {"a": None}, None]),
    }
)


def _generator(kind: str, fields: str, settings: Mapping[str, str], **flags: str) -> KeyGenerator | None:
    properties = {_GENERATOR: f"org.apache.hudi.keygen.{kind}", _FIELDS: fields}
    properties |= {f"hoodie.datasource.write.{name}": value for name, value in flags.items()}
    table = HudiTable("/t", TableProperties(properties), Timeline(()), Storage())
    return key_generator_of(table, settings.get)


def _paths(kind: str, fields: str, settings: Mapping[str, str], **flags: str) -> list[str]:
    generator = _generator(kind, fields, settings, **flags)
    assert generator is not None
    return list(generator.paths(ROWS).to_pylist())


def test_a_timestamp_becomes_directories() -> None:
    paths = _paths("TimestampBasedKeyGenerator", "at", _SECONDS)
    assert paths == ["1970/01", "1970/02", "1971/02"]
    assert _paths("TimestampBasedKeyGenerator", "at", _SECONDS, hive_style_partitioning="true")[0] == (
        "at=1970/01"
    )


def test_settings_may_have_their_old_names() -> None:
    old = {key.replace(_TIMES, _OLD_TIMES): value for key, value in _SECONDS.items()}
    assert _paths("TimestampBasedAvroKeyGenerator", "at", old) == ["1970/01", "1970/02", "1971/02"]


def test_a_custom_generator_has_a_kind_for_each_field() -> None:
    settings = {_SPEC: "region:SIMPLE, at:timestamp", **_SECONDS}
    flags = {"hive_style_partitioning": "true", "partitionpath.urlencode": "true"}
    assert _paths("CustomKeyGenerator", "region,at", settings, **flags) == [
        "region=eu/at=1970%2F01",
        "region=a%2Fb/at=1970%2F02",
        "region=__HIVE_DEFAULT_PARTITION__/at=1971%2F02",
    ]
    assert _paths("CustomKeyGenerator", "region:SIMPLE", {})[0] == "eu"


def test_fields_of_structs_are_taken_as_they_are() -> None:
    assert _paths("SimpleKeyGenerator", "st.a", {}) == [
        "1",
        "__HIVE_DEFAULT_PARTITION__",
        "__HIVE_DEFAULT_PARTITION__",
    ]


def _without(key: str) -> dict[str, str]:
    return {name: value for name, value in _SECONDS.items() if not name.endswith(key)}


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        ("TimestampBasedKeyGenerator", _without("timestamp.type"), "no setting has .*timestamp.type"),
        ("TimestampBasedKeyGenerator", _without("output.dateformat"), "no setting has .*output.dateformat"),
        ("TimestampBasedKeyGenerator", _without("timezone"), "no setting has .*output.timezone"),
        ("TimestampBasedKeyGenerator", _SECONDS | {f"{_TIMES}.timestamp.type": "MOON"}, "= MOON is not"),
        ("TimestampBasedKeyGenerator", _SECONDS | {f"{_TIMES}.timezone": "Moon"}, "zone 'Moon'"),
        (
            "TimestampBasedKeyGenerator",
            _SECONDS
            | {f"{_TIMES}.timestamp.type": "SCALAR", f"{_TIMES}.timestamp.scalar.time.unit": "weeks"},
            "unit = WEEKS is not",
        ),
        (
            "TimestampBasedKeyGenerator",
            _SECONDS | {"hoodie.keygen.datetime.parser.class": "org.example.Parser"},
            "its own date parser",
        ),
        ("CustomKeyGenerator", _SECONDS, "no setting has the kinds of its partition fields at"),
        ("CustomKeyGenerator", _SECONDS | {_SPEC: "at:LATER"}, "no setting has the kinds"),
    ],
)
def test_what_no_setting_says_is_named(kind: str, settings: Mapping[str, str], said: str) -> None:
    with pytest.raises(UnsupportedTableError, match=said):
        _generator(kind, "at", settings)


def test_tables_without_partitions_need_no_generator() -> None:
    assert _generator("NonpartitionedKeyGenerator", "", {}) is None
