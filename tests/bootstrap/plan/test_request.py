from dataclasses import replace

import pytest

from hudisql.bootstrap.plan.bootstrap_mode import ModeChoice
from hudisql.bootstrap.plan.request import BootstrapRequest, apply_options, parse_table_type
from hudisql.errors import InvalidArgumentError

_GOOD = {"database": "db", "name": "t", "record_key": ("id",), "source_path": "/s"}


def test_table_types_are_taken_in_any_form():
    assert {parse_table_type(text) for text in ("cow", "COPY_ON_WRITE", "Cow ")} == {"COPY_ON_WRITE"}
    assert parse_table_type("mor") == "MERGE_ON_READ"
    with pytest.raises(InvalidArgumentError):
        parse_table_type("table")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"source_path": None}, "either source"),
        ({"source_table": ("db", "s")}, "either source"),
        ({"source_path": ""}, "source is an empty path"),
        ({"target_path": " "}, "target_path is an empty path"),
        ({"name": "a-b"}, "not a name that the metastore takes"),
        ({"record_key": ("",)}, "names no column"),
        ({"key_check": "x"}, "it is 'unique' or 'unique_global' or 'nulls' or 'none'"),
        ({"skeleton_encoding": "zip"}, "it is 'plain' or 'delta'"),
        ({"on_schema_drift": "report"}, "on_schema_drift 'report' is not supported"),
        ({"on_schema_drift": "merge"}, "it is 'fail' or 'widen'"),
        ({"bloom_entries": 0}, "bloom_entries"),
        ({"bloom_fpp": 1.0}, "bloom_fpp"),
        ({"sort_mode": "SOME"}, "hoodie.bulkinsert.sort.mode 'SOME' is unknown"),
        ({"codec": "lzo"}, "hoodie.parquet.compression.codec 'lzo' is unknown"),
        ({"max_file_bytes": 0}, "hoodie.parquet.max.file.size must be 1 or more"),
        ({"options": {"a.b": "1"}}, "a.b"),
        ({"table_version": 8}, "cannot create tables of version 8"),
        ({"table_version": 9, "mode": ModeChoice(register_only_where="dt > 1")}, "version 6"),
    ],
)
def test_words_that_make_no_request_are_refused(changes, words):
    with pytest.raises(InvalidArgumentError, match=words):
        BootstrapRequest(**{**_GOOD, **changes})


def test_options_fill_in_parameters_that_were_not_given():
    request = BootstrapRequest(
        **_GOOD,
        precombine="seq",
        options={
            "hoodie.table.precombine.field": "other",
            "hoodie.index.bloom.num_entries": "500",
            "hoodie.index.bloom.fpp": "0.01",
            "hoodie.datasource.write.table.type": "mor",
            "hoodie.datasource.hive_sync.table.strategy": "RO",
            "hoodie.metadata.enable": "true",
            "hoodie.write.table.version": "9",
            "hoodie.whatever": "1",
        },
    )
    applied, findings = apply_options(request, frozenset({"precombine"}))
    assert (applied.precombine, applied.bloom_entries, applied.bloom_fpp) == ("seq", 500, 0.01)
    assert applied.is_merge_on_read
    assert applied.table_version == 9
    assert applied.sync_options == {"hoodie.datasource.hive_sync.table.strategy": "RO"}
    assert [finding.message for finding in findings] == [
        "option hoodie.whatever has no effect on a bootstrap",
    ]


def test_a_metadata_table_of_version_6_is_made_if_its_indexes_are_named():
    request = BootstrapRequest(**_GOOD, options={"hoodie.metadata.enable": "true"})
    _, findings = apply_options(request, frozenset())
    assert [finding.message for finding in findings] == [
        "hoodie.metadata.enable has no effect on a bootstrap of version 6: "
        "indexes => 'column_stats' makes a metadata table"
    ]
    assert apply_options(replace(request, indexes=frozenset({"column_stats"})), frozenset())[1] == ()


def test_options_that_would_make_a_bad_request_are_refused_too():
    request = BootstrapRequest(**_GOOD, options={"hoodie.index.bloom.fpp": "3"})
    with pytest.raises(InvalidArgumentError, match="between 0 and 1"):
        apply_options(request, frozenset())


def test_options_of_indexes_have_no_effect_without_a_metadata_table():
    options = {"hoodie.metadata.enable": "false", "hoodie.metadata.record.index.enable": "true"}
    applied, findings = apply_options(BootstrapRequest(**_GOOD, options=options), frozenset())
    assert applied.indexes == frozenset()
    assert [finding.message for finding in findings] == [
        "hoodie.metadata.enable = false: the options of indexes have no effect"
    ]


def test_the_options_of_record_indexes_name_one():
    name = "hoodie.metadata.record.level.index.enable"
    of_version_9 = {**_GOOD, "table_version": 9}
    request = BootstrapRequest(**of_version_9, options={name: "true"})
    assert apply_options(request, frozenset())[0].indexes == {"record_level_index"}
    assert apply_options(request, frozenset({"indexes"})) == (request, ())
    both = BootstrapRequest(
        **of_version_9, options={name: "true", "hoodie.metadata.record.index.enable": "true"}
    )
    with pytest.raises(InvalidArgumentError, match="a table has one record index"):
        apply_options(both, frozenset())
    with pytest.raises(InvalidArgumentError, match="is for tables of version 9, not 6"):
        apply_options(BootstrapRequest(**_GOOD, options={name: "true"}), frozenset())
