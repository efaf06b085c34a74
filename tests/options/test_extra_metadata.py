"""The settings that a commit stores: chosen by a prefix, and never those of Spark or of the table itself."""

from __future__ import annotations

import pytest

from hudisql.config.config_key import HudiConfig
from hudisql.errors import InvalidArgumentError, SettingsError
from hudisql.options.extra_metadata import extra_metadata
from hudisql.sql.dataframe.frame_options import read_frame_options

PREFIX = "hoodie.datasource.write.commitmeta.key.prefix"
OPERATION = "hoodie.datasource.write.operation"


def _extra_metadata(**values: str) -> dict[str, str]:
    return extra_metadata(HudiConfig(values.get, values.keys))


def test_names_begin_with_the_prefix_letter_by_letter() -> None:
    given = {"job_a": "1", "Job_b": "2", "job_,run_c": "3", "_d": "4", "run_e": "5"}
    assert _extra_metadata(**given) == {"_d": "4"}
    assert _extra_metadata(**given, **{PREFIX: "job_"}) == {"job_a": "1", "job_,run_c": "3"}
    assert _extra_metadata(**given, **{PREFIX: "job_,run_"}) == {"job_,run_c": "3"}


def test_settings_of_spark_are_not_stored() -> None:
    given = {"spark.hadoop.fs.s3a.secret.key": "secret", "sparkle": "1"}
    assert _extra_metadata(**given, **{PREFIX: "spark"}) == {"sparkle": "1"}


@pytest.mark.parametrize(
    "name", ["schema", "latest_schema", "hudisql.incremental.checkpoint", "_hudi_streaming_sink_checkpoint"]
)
def test_metadata_of_the_table_is_not_overwritten(name: str) -> None:
    with pytest.raises(SettingsError, match=f"asks to store '{name}'"):
        _extra_metadata(**{PREFIX: name[:3], name: "x"})


def test_an_empty_prefix_is_refused() -> None:
    with pytest.raises(SettingsError, match="is empty, which would store all settings in the commit"):
        _extra_metadata(**{PREFIX: "", "job_a": "1"})


def test_options_under_other_values_are_known_by_name() -> None:
    config = HudiConfig({"_a": "1"}.get, {"_a": "1"}.keys)
    assert extra_metadata(config.under({"_b": "2"})) == {"_a": "1", "_b": "2"}
    assert extra_metadata(config.over({"_c": "3"}.get)) == {"_a": "1"}


def test_options_of_a_write_that_the_commit_stores_may_have_any_name() -> None:
    given = {PREFIX: "job_", "Job_A": "1", OPERATION: "insert"}
    assert read_frame_options(None, given).settings == {PREFIX: "job_", "job_a": "1"}
    assert read_frame_options(None, {"_a": "1"}).settings == {"_a": "1"}
    of_spark = {PREFIX: "spark.", "spark.sql.ansi.enabled": "false"}
    for other in (
        of_spark,
        {PREFIX: "Job_", "Job_A": "1"},
        {PREFIX: "job_", "run_a": "1"},
        {PREFIX: "", "a": "1"},
    ):
        with pytest.raises(InvalidArgumentError, match="is not an option of a write") as caught:
            read_frame_options(None, other)
        assert f"those that the commit stores with the value of {PREFIX}" in (caught.value.hint or "")
