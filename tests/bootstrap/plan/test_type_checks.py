"""Incompatible types: what stops, what warns, and which partitions are rewritten for them."""

import pyarrow as pa

from hudisql.bootstrap.blockers import blocker, blockers_error
from hudisql.bootstrap.plan.bootstrap_mode import BootstrapMode, UnsafeTypePolicy
from hudisql.bootstrap.plan.type_checks import classify_types, describe_types
from hudisql.bootstrap.source.footers import FileFooter, SourceColumn, SourceSchema

METADATA, FULL = BootstrapMode.METADATA_ONLY, BootstrapMode.FULL_RECORD
FAIL, WARN, REWRITE = UnsafeTypePolicy.FAIL, UnsafeTypePolicy.WARN, UnsafeTypePolicy.FULL_RECORD
SCHEMA = pa.schema([("price", pa.decimal128(12, 2))])


def _footer(path, *incompatibilities):
    column = SourceColumn("price", pa.decimal128(12, 2), "INT64", frozenset(incompatibilities))
    return FileFooter(path, SourceSchema((column,), ",".join(incompatibilities)))


def test_an_unsafe_type_stops_with_column_files_who_breaks_and_the_ways_out():
    partitions = [[_footer("/1/a", "integer_decimal"), _footer("/1/b")], [_footer("/2/a", "integer_decimal")]]
    verdict = classify_types(partitions, [METADATA, METADATA], FAIL, SCHEMA)
    (finding,) = verdict.findings
    assert finding.is_blocker
    assert finding.message.startswith(
        "column price (decimal(12,2)): decimal stored as INT32/INT64 in 2 files, such as /1/a: Hudi 0.15"
    )
    assert "Hive 2.3 cannot read" in finding.message
    for way in ("on_unsafe_type => 'full_record'", "on_unsafe_type => 'warn'", "writeLegacyFormat"):
        assert way in str(finding)
    assert verdict.modes == (METADATA, METADATA)


def test_what_solves_all_blockers_leads_the_error() -> None:
    unsafe = [_footer("/1/a", "integer_decimal", "int96")]
    findings = classify_types([unsafe], [METADATA], FAIL, SCHEMA).findings
    first, *listed, last = str(blockers_error("t cannot be bootstrapped", findings, "dry_run")).split("\n")
    assert first.startswith("t cannot be bootstrapped, 2 blockers. on_unsafe_type => 'full_record' rewrites")
    assert "'warn' keeps the files" in first
    assert not any("on_unsafe_type" in text for text in (*listed, last))
    with_another = [*findings, blocker("no rows", hint="add some")]
    first, *listed = str(blockers_error("t cannot be bootstrapped", with_another, "dry_run")).split("\n")
    assert first == "t cannot be bootstrapped, 3 blockers:"
    assert sum("on_unsafe_type => 'full_record'" in text for text in listed) == 2


def test_a_warning_lets_it_pass_and_remembers_the_columns():
    verdict = classify_types(
        [[_footer("/a", "integer_decimal", "timestamp_micros")]], [METADATA], WARN, SCHEMA
    )
    assert [finding.is_blocker for finding in verdict.findings] == [False, False]
    # What is only shown otherwise is no unsafe type.
    assert verdict.unsafe == {"price": ("integer_decimal",)}


def test_just_the_partitions_with_unsafe_files_are_rewritten():
    partitions = [[_footer("/1/a"), _footer("/1/b", "integer_decimal")], [_footer("/2/a")]]
    verdict = classify_types(partitions, [METADATA, METADATA], REWRITE, SCHEMA)
    assert verdict.modes == (FULL, METADATA)
    (finding,) = verdict.findings
    assert not finding.is_blocker
    assert "in 1 file: the partitions of these files are rewritten" in finding.message
    assert verdict.unsafe == {}


def test_files_that_are_rewritten_anyway_are_no_finding():
    verdict = classify_types([[_footer("/a", "int96", "integer_decimal")]], [FULL], FAIL, SCHEMA)
    assert verdict.findings == ()


def test_what_only_a_rewrite_mends_stops_even_with_warn():
    (finding,) = classify_types([[_footer("/a", "timestamp_nanos")]], [METADATA], WARN, SCHEMA).findings
    assert finding.is_blocker
    assert "on_unsafe_type => 'full_record'" in str(finding)
    assert "'warn'" not in str(finding)
    assert classify_types([[_footer("/a", "timestamp_nanos")]], [METADATA], REWRITE, SCHEMA).modes == (FULL,)
    (finding,) = classify_types([[_footer("/a", "int96")]], [METADATA], WARN, SCHEMA).findings
    assert not finding.is_blocker
    assert "1 file: /a" in finding.message
    assert "CALL rewrite_bootstrap_files" in finding.hint


def test_what_no_rewrite_mends_stops_unless_it_is_taken_as_it_is():
    for modes in ([METADATA], [FULL]):
        for policy in (FAIL, REWRITE):
            verdict = classify_types([[_footer("/a", "timestamp_ntz")]], modes, policy, SCHEMA)
            assert verdict.findings[0].is_blocker
            assert verdict.modes == tuple(modes)
        assert (
            not classify_types([[_footer("/a", "timestamp_ntz")]], modes, WARN, SCHEMA).findings[0].is_blocker
        )
    (refused,) = classify_types([[_footer("/a", "uint64")]], [FULL], WARN, SCHEMA).findings
    assert refused.is_blocker


def test_a_partition_tells_in_short_what_is_in_its_files():
    footers = [_footer("/a", "int96"), _footer("/b", "timestamp_millis")]
    int96, millis = (
        "column price: INT96 timestamp in 1 file",
        "column price: timestamp in milliseconds in 1 file",
    )
    assert describe_types(footers, METADATA, FAIL) == ((int96, millis), ())
    assert describe_types(footers, METADATA, WARN) == ((), (int96, millis))
    assert describe_types(footers, FULL, FAIL) == ((), (f"{int96}, rewritten", f"{millis}, rewritten"))
