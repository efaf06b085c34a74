"""Each `hoodie.datasource.write.*`, `hoodie.sql.*` and `hoodie.spark.sql.*` setting of Hudi 0.15 and 1.2:
served, of the table, without effect on rows, or refused by name."""

from __future__ import annotations

from contextlib import nullcontext
from importlib.resources import files
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest

from hudisql.config.config_key import HudiConfig
from hudisql.config.hudi_config import CONFIG_KEYS
from hudisql.errors import SettingsError
from hudisql.format.table_properties import TableProperties
from hudisql.options.insert_options import insert_dup_policy, insert_operation
from hudisql.options.unserved_settings import (
    refuse_logical_timestamps,
    refuse_unserved_inserts,
    refuse_unserved_writes,
)
from hudisql.sql.dataframe.frame_options import read_frame_options
from hudisql.table.hudi_table import HudiTable

PREFIXES = ("hoodie.datasource.write.", "hoodie.datasource.insert.", "hoodie.sql.", "hoodie.spark.sql.")
WRITE = "hoodie.datasource.write."
SERVED = {
    f"{WRITE}commitmeta.key.prefix",
    f"{WRITE}insert.drop.duplicates",
    f"{WRITE}operation",
    f"{WRITE}reconcile.schema",
    f"{WRITE}schema.allow.auto.evolution.column.drop",
    "hoodie.datasource.insert.dup.policy",
    "hoodie.spark.sql.insert.into.operation",
    "hoodie.sql.bulk.insert.enable",
    "hoodie.sql.insert.mode",
}
# What a table is: options of a DataFrame must agree with it, and a session's value says nothing of it.
OF_THE_TABLE = {
    f"{WRITE}hive_style_partitioning",
    f"{WRITE}keygenerator.class",
    f"{WRITE}partitionpath.field",
    f"{WRITE}partitionpath.urlencode",
    f"{WRITE}table.name",
    f"{WRITE}table.type",
}
REFUSED = {
    f"{WRITE}drop.partition.columns": "true",
    f"{WRITE}keygenerator.consistent.logical.timestamp.enabled": "true",
    f"{WRITE}keygenerator.type": "TIMESTAMP",
    f"{WRITE}payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    f"{WRITE}precombine.field": "other",
    f"{WRITE}record.merger.impls": "com.example.Merger",
    f"{WRITE}record.merger.strategy": "00000000-0000-0000-0000-000000000000",
    f"{WRITE}recordkey.field": "other",
    f"{WRITE}slash.separated.date.partitioning": "true",
}
NO_EFFECT_ON_ROWS = {
    f"{WRITE}partitions.to.delete": "for the operation delete_partition alone, which is refused",
    f"{WRITE}row.writer.enable": "how Hudi's bulk insert computes the rows",
    f"{WRITE}secondarykey.column": "an index of Hudi 1.x, which hudisql does not write",
    f"{WRITE}storage.type": "an older name of the table type",
    f"{WRITE}streaming.checkpoint.identifier": "sinks of Structured Streaming, which hudisql has none of",
    f"{WRITE}streaming.disable.compaction": "the same",
    f"{WRITE}streaming.ignore.failed.batch": "the same",
    f"{WRITE}streaming.retry.count": "the same",
    f"{WRITE}streaming.retry.interval.ms": "the same",
    "hoodie.spark.sql.merge.into.partial.updates": "how Hudi 1.x writes the log records of a MERGE",
    "hoodie.spark.sql.optimized.writes.enable": "how Hudi 1.x finds the rows of an UPDATE",
}
TABLE = TableProperties(
    {
        "hoodie.table.name": "t",
        "hoodie.table.version": "6",
        "hoodie.table.recordkey.fields": "id,sub",
        "hoodie.table.precombine.field": "ts",
    }
)


def refuse(**values: str) -> None:
    config = HudiConfig(lambda key, default: values.get(key, default))
    refuse_unserved_writes(config, TABLE)
    refuse_logical_timestamps(config, TABLE, pa.schema({"sub": pa.timestamp("us", "UTC")}))
    table = _table()
    insert_dup_policy(config, table, insert_operation(config, config, table), is_sql=True)


def _table(*, is_merge_on_read: bool = False) -> HudiTable:
    made = SimpleNamespace(properties=TABLE, base_path="/t", is_merge_on_read=is_merge_on_read)
    return cast(HudiTable, made)


def test_each_setting_of_hudi_is_classified_once() -> None:
    text = (files("hudisql.options") / "hudi_settings.txt").read_text(encoding="utf-8")
    known = {line for line in text.splitlines() if line.startswith(PREFIXES)}
    classes = [SERVED, OF_THE_TABLE, set(REFUSED), set(NO_EFFECT_ON_ROWS)]
    assert known - set().union(*classes) == set(), "classify these, and serve or refuse them"
    assert sorted(name for each in classes for name in each) == sorted(known)


def test_what_is_served_is_declared() -> None:
    assert {key.name for key in CONFIG_KEYS} >= SERVED


@pytest.mark.parametrize("key", sorted(OF_THE_TABLE))
def test_what_is_of_the_table_is_an_option_that_is_compared_with_it(key: str) -> None:
    assert read_frame_options("insert", {key: "x"}).definition == {key: "x"}


@pytest.mark.parametrize(("key", "value"), REFUSED.items())
def test_what_would_give_other_rows_is_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(SettingsError, match=key.replace(".", r"\.")):
        refuse(**{key: value})


@pytest.mark.parametrize(
    ("key", "value", "harmless"),
    [
        ("hoodie.allow.operation.metadata.field", "TRUE", ["false"]),
        ("hoodie.storage.layout.type", "LSM_TREE", ["DEFAULT", "BUCKET"]),
        ("hoodie.table.storage.layout", "lsm_tree", ["default"]),
    ],
)
def test_other_files_than_hudisql_writes_are_refused_by_name(
    key: str, value: str, harmless: list[str]
) -> None:
    with pytest.raises(SettingsError, match=f"{key} = {value.lower()} is not supported"):
        refuse(**{key: value})
    for text in harmless:
        refuse(**{key: text})


@pytest.mark.parametrize("key", sorted(NO_EFFECT_ON_ROWS))
def test_what_has_no_effect_on_rows_is_left_alone(key: str) -> None:
    refuse(**{key: "1"})


def test_what_concerns_other_writes_or_tables_is_left_alone() -> None:
    values = {
        "hoodie.combine.before.upsert": "false",
        f"{WRITE}keygenerator.consistent.logical.timestamp.enabled": "true",
    }
    config = HudiConfig(lambda key, default: values.get(key, default))
    for operation in ("insert", "bulk_insert"):
        refuse_unserved_inserts(config, operation)
    with pytest.raises(SettingsError, match="upsert = false is not supported for the operation upsert"):
        refuse_unserved_inserts(config, "upsert")
    schema = pa.schema({"id": pa.int64(), "sub": pa.string(), "v": pa.timestamp("us", "UTC")})
    refuse_logical_timestamps(config, TABLE, schema)


def test_a_session_that_says_what_the_table_says_is_followed() -> None:
    refuse(**{f"{WRITE}recordkey.field": "ID, sub", f"{WRITE}precombine.field": "TS"})
    refuse(**{"hoodie.sql.insert.mode": "non-strict"})


INTO = "hoodie.spark.sql.insert.into.operation"
DUP_POLICY = "hoodie.datasource.insert.dup.policy"
MODE = "hoodie.sql.insert.mode"
BULK = "hoodie.sql.bulk.insert.enable"


@pytest.mark.parametrize(
    ("values", "is_sql", "is_merge_on_read", "operation", "policy"),
    [
        ({}, True, False, "upsert", "none"),
        ({DUP_POLICY: "DROP", INTO: "insert"}, True, False, "insert", "drop"),
        ({f"{WRITE}insert.drop.duplicates": "true"}, False, False, "upsert", "drop"),
        ({DUP_POLICY: "fail", f"{WRITE}insert.drop.duplicates": "true"}, True, False, "upsert", "fail"),
        ({MODE: "strict"}, True, False, "upsert", "fail"),
        ({MODE: "strict"}, True, True, "upsert", "none"),
        ({MODE: "strict"}, False, False, "upsert", "none"),
        ({MODE: "strict", INTO: "insert"}, True, False, "insert", "none"),
        ({BULK: "true"}, True, False, "upsert", "none"),
        ({BULK: "true", MODE: "non-strict"}, True, False, "bulk_insert", "none"),
        ({BULK: "true", MODE: "non-strict", INTO: "insert"}, True, False, "insert", "none"),
    ],
)
def test_the_operation_of_an_insert_and_its_policy_for_stored_keys(
    values: dict[str, str], is_sql: bool, is_merge_on_read: bool, operation: str, policy: str
) -> None:
    config = HudiConfig(lambda key, default: values.get(key, default))
    table = _table(is_merge_on_read=is_merge_on_read)
    found = insert_operation(config, config, table)
    assert (found, insert_dup_policy(config, table, found, is_sql=is_sql)) == (operation, policy)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({MODE: "loose"}, f"{MODE}.*upsert, strict, non-strict"),
        ({DUP_POLICY: "merge"}, f"{DUP_POLICY}.*none, drop, fail"),
        (
            {DUP_POLICY: "drop", INTO: "bulk_insert"},
            f"{DUP_POLICY} = drop cannot be .*looks up no keys",
        ),
        ({MODE: "strict", BULK: "true"}, f"{MODE} = strict and {BULK} = true contradict"),
    ],
)
def test_a_policy_that_cannot_be_followed_is_refused(values: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        refuse(**values)


@pytest.mark.parametrize(
    ("own", "settings", "said"),
    [
        (
            "true",
            {"hoodie.populate.meta.fields": "false"},
            "contradicts the table, whose value is true",
        ),
        (
            "false",
            {"hoodie.populate.meta.fields": "true"},
            "contradicts the table, whose value is false",
        ),
        ("false", {"hoodie.populate.meta.fields": "false"}, None),
        ("false", {"hoodie.index.type": "SIMPLE"}, None),
        ("false", {"hoodie.index.type": "bloom"}, "hoodie.index.type = BLOOM is not possible"),
        ("false", {"hoodie.index.type": "RECORD_INDEX"}, "hoodie.index.type = RECORD_INDEX is not possible"),
        (
            "false",
            {"hoodie.metadata.record.index.enable": "true"},
            "index.enable = true is not possible",
        ),
        ("true", {"hoodie.metadata.record.index.enable": "true", "hoodie.index.type": "BLOOM"}, None),
    ],
)
def test_settings_must_agree_with_the_meta_columns_of_the_table(
    own: str, settings: dict[str, str], said: str | None
) -> None:
    table = TableProperties({**TABLE.values, "hoodie.populate.meta.fields": own})
    with nullcontext() if said is None else pytest.raises(SettingsError, match=said):
        refuse_unserved_writes(HudiConfig(lambda key, default: settings.get(key, default)), table)
