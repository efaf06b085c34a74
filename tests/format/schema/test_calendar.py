import pytest

from hudisql.format.schema.calendar import PROLEPTIC_SPARK_VERSION, uses_hybrid_calendar

VERSION = b"org.apache.spark.version"


@pytest.mark.parametrize(
    ("key_values", "is_hybrid"),
    [
        (None, False),
        ({b"parquet.avro.schema": b"{}"}, False),
        ({VERSION: b"2.4.8"}, True),
        ({VERSION: b"3.0.3"}, True),
        ({VERSION: b"3.1.0"}, False),
        ({VERSION: b"10.0.0"}, False),
        ({VERSION: b"4.3.0", b"org.apache.spark.legacyDateTime": b""}, True),
        ({VERSION: b"4.3.0", b"org.apache.spark.legacyINT96": b""}, True),
        ({VERSION: b"unknown"}, True),
    ],
)
def test_spark_2_and_legacy_mode_leave_the_hybrid_calendar(key_values, is_hybrid):
    assert uses_hybrid_calendar(key_values) is is_hybrid


def test_the_version_that_our_own_files_name_is_not_of_the_hybrid_calendar():
    assert not uses_hybrid_calendar({VERSION: PROLEPTIC_SPARK_VERSION.encode()})
