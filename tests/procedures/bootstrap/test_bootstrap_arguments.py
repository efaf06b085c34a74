"""The arguments of `bootstrap_table` as a request: every parameter has its effect."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast

import pytest

from hudisql.bootstrap.plan.request import BootstrapRequest
from hudisql.catalog.client import MetastoreClient
from hudisql.context import Context
from hudisql.errors import InvalidArgumentError
from hudisql.procedures.binder import bind_arguments
from hudisql.procedures.bootstrap.bootstrap_table import BootstrapTableArguments, request_of
from hudisql.procedures.registry import find_procedure, parameters_of

# What does not change the request, but how the call goes.
_OF_THE_CALL = {"iceberg_sync", "verify", "dry_run", "fail_on_error"}
_CHANGED: dict[str, object] = {
    "table": "db.other",
    "source": "/elsewhere",
    "record_key": "a,b",
    "target_path": "/target",
    "table_type": "MERGE_ON_READ",
    "table_version": 9,
    "precombine": "ts",
    "partition_by": "dt date",
    "mode": "full_record",
    "full_record_where": "dt > 1",
    "register_only_where": "dt > 1",
    "on_unsafe_type": "warn",
    "on_partition_mismatch": "warn",
    "partition_filter": "dt > 1",
    "ignore": "*.csv",
    "key_check": "NONE",
    "on_schema_drift": " Widen ",
    "protect_source": True,
    "parallelism": 7,
    "bloom_entries": 10,
    "bloom_fpp": 0.5,
    "skeleton_encoding": "Delta",
    "resume": True,
    "sync": False,
    "options": {"hoodie.bootstrap.parallelism": "3"},
}


def _request(**named: object) -> BootstrapRequest:
    # Names are given in full, so that no Spark is asked for the current database.
    context = Context(cast(Any, None), cast(MetastoreClient, None))
    bound = bind_arguments(find_procedure("bootstrap_table"), (), named.items())
    return request_of(context, cast(BootstrapTableArguments, bound))


def test_every_parameter_is_part_of_the_request_or_of_the_call() -> None:
    names = {each.name for each in parameters_of(BootstrapTableArguments)}
    assert names == {*_CHANGED, "source_table", "indexes", *_OF_THE_CALL}


@pytest.mark.parametrize("name", _CHANGED)
def test_each_parameter_changes_the_request(name: str) -> None:
    given = {"table": "db.t", "source": "/source"}
    before, after = _request(**given), _request(**{**given, name: _CHANGED[name]})
    changed = [
        field.name for field in fields(before) if getattr(before, field.name) != getattr(after, field.name)
    ]
    assert changed


def test_indexes_are_named_in_any_case_and_not_beside_register_only_partitions() -> None:
    given = {"table": "db.t", "source": "/source", "indexes": "files, Record_Index"}
    assert _request(**given).indexes == {"files", "record_index"}
    with pytest.raises(InvalidArgumentError, match="indexes are for tables without register-only"):
        _request(**given, register_only_where="dt = 1")
    with pytest.raises(InvalidArgumentError, match="hudisql makes no index 'bloom_filters'"):
        _request(**{**given, "indexes": "bloom_filters"})


def test_a_source_table_is_a_name_of_the_metastore() -> None:
    assert _request(table="db.t", source_table="db.s").source_table == ("db", "s")
    with pytest.raises(InvalidArgumentError, match="record_key names no column"):
        _request(table="db.t", source="/source", record_key="")
