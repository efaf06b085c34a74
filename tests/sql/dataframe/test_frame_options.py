"""What a DataFrame's options say of a table, and what they say of how it is written."""

from __future__ import annotations

import pytest

from hudisql.errors import InvalidArgumentError
from hudisql.format.table_properties import KEY_GENERATOR_CLASS, PARTITION_FIELDS, TableProperties
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.sql.dataframe.frame_options import check_agreement, read_frame_options
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable

FIELDS = "hoodie.datasource.write.partitionpath.field"
GENERATOR = "hoodie.datasource.write.keygenerator.class"
TABLE = HudiTable(
    "/t",
    TableProperties(
        {PARTITION_FIELDS: "region,at", KEY_GENERATOR_CLASS: "org.apache.hudi.keygen.CustomKeyGenerator"}
    ),
    Timeline(()),
    Storage(),
)


def test_kinds_of_partition_fields_agree_with_the_table_and_are_settings_too() -> None:
    given = {FIELDS: "region:SIMPLE, at:TIMESTAMP", GENERATOR: "org.apache.hudi.keygen.CustomKeyGenerator"}
    options = read_frame_options("upsert", given)
    check_agreement(options, TABLE, "db.t")
    assert options.settings == {FIELDS: "region:SIMPLE, at:TIMESTAMP"}
    assert read_frame_options("upsert", {FIELDS: "region,at"}).settings == {}


def test_other_partition_fields_contradict_the_table() -> None:
    options = read_frame_options("upsert", {FIELDS: "at:TIMESTAMP"})
    with pytest.raises(InvalidArgumentError, match=r"contradicts the table db\.t, which has 'region,at'"):
        check_agreement(options, TABLE, "db.t")
