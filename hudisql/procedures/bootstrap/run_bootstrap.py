"""`CALL run_bootstrap` with Hudi's parameters (`RunBootstrapProcedure`): converts its arguments to a request.

Names and output are Hudi's; requests beyond a bootstrap of parquet files are refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hudisql.bootstrap.plan.bootstrap_mode import (
    METADATA_ONLY_SELECTOR,
    REGEX_MODE_OPTION,
    REGEX_OPTION,
    REGEX_SELECTOR,
    SELECTOR_OPTION,
    UnsafeTypePolicy,
)
from hudisql.errors import InvalidArgumentError
from hudisql.format.table_properties import HFILE_BOOTSTRAP_INDEX, parse_properties
from hudisql.procedures.registry import Arguments, Int, parameter, procedure

if TYPE_CHECKING:
    from hudisql.bootstrap.plan.request import BootstrapRequest
    from hudisql.context import Context

_HUDI: Final = "org.apache.hudi"
_SIMPLE_KEY_GENERATOR: Final = f"{_HUDI}.keygen.SimpleKeyGenerator"
_FULL_INPUT_PROVIDER: Final = f"{_HUDI}.bootstrap.SparkParquetBootstrapDataProvider"
_PAYLOAD: Final = f"{_HUDI}.common.model.OverwriteWithLatestAvroPayload"


@dataclass(frozen=True, kw_only=True)
class RunBootstrapArguments(Arguments):
    """The parameters of Hudi's `run_bootstrap`."""

    table: str = parameter(help="the new table")
    table_type: str = parameter(help="COPY_ON_WRITE or MERGE_ON_READ")
    bootstrap_path: str = parameter(help="directory of the parquet files")
    base_path: str = parameter(help="the table's directory")
    rowKey_field: str = parameter(help="record key columns, separated by commas")  # noqa: N815 (Hudi's name)
    base_file_format: str = parameter("PARQUET", help="PARQUET")
    partition_path_field: str = parameter("", help="partition columns, separated by commas")
    bootstrap_index_class: str = parameter(HFILE_BOOTSTRAP_INDEX, help="Hudi's HFile index")
    selector_class: str = parameter(
        METADATA_ONLY_SELECTOR,
        help="Hudi's metadata-only, full-record or regex selector; the latter takes the options"
        " hoodie.bootstrap.mode.selector.regex and .regex.mode",
    )
    key_generator_class: str = parameter(
        _SIMPLE_KEY_GENERATOR, help="simple, complex or nonpartitioned, by class or short name (SIMPLE)"
    )
    full_bootstrap_input_provider: str = parameter(_FULL_INPUT_PROVIDER, help="not used")
    schema_provider_class: str = parameter("", help="not supported: the files give the schema")
    payload_class: str = parameter(_PAYLOAD, help="record payload of a MERGE_ON_READ table")
    parallelism: int = parameter(1500, help="most Spark tasks")
    enable_hive_sync: bool = parameter(False, help="register the table in the metastore")
    props_file_path: str = parameter("", help="properties file with more hoodie.* settings")
    bootstrap_overwrite: bool = parameter(
        False, help="taken if there is nothing at base_path: hudisql deletes no table here"
    )
    options: Mapping[str, str] | None = parameter(None, help="hoodie.* settings, 'key=value,key=value'")


@dataclass(frozen=True)
class RunBootstrapRow:
    """Hudi's status: 0."""

    status: Int


@procedure("Hudi's own call of a bootstrap; bootstrap_table checks and reports more.", name="run_bootstrap")
def call_run_bootstrap(context: Context, arguments: RunBootstrapArguments) -> Iterable[RunBootstrapRow]:
    """One row with status 0. Raises InvalidArgumentError for options that only Apache Hudi supports."""
    from hudisql.bootstrap.plan.request import apply_options
    from hudisql.bootstrap.run.verified_bootstrap import bootstrap_table

    _refuse_what_only_hudi_does(arguments)
    if arguments.bootstrap_overwrite:
        _check_empty(context, arguments.base_path)
    request, findings = apply_options(_request_of(context, arguments), frozenset({"table_type"}))
    bootstrap_table(context, request, findings, verify=False, prints_warnings=True)
    return [RunBootstrapRow(0)]


def _request_of(context: Context, arguments: RunBootstrapArguments) -> BootstrapRequest:
    from hudisql.bootstrap.plan.request import BootstrapRequest, parse_table_type
    from hudisql.bootstrap.source.partition_columns import parse_partition_by

    database, name = context.qualify_table_name(arguments.table)
    fields = arguments.partition_path_field.strip()
    options = _options_of_file(context, arguments.props_file_path) | dict(arguments.options or {})
    payload = arguments.payload_class
    if payload != _PAYLOAD:
        options.setdefault("hoodie.datasource.write.payload.class", payload)
    if "selector_class" in arguments.given or SELECTOR_OPTION not in options:
        options[SELECTOR_OPTION] = arguments.selector_class
    if options[SELECTOR_OPTION] != REGEX_SELECTOR:
        # Hudi's other selectors ignore these.
        options = {
            name: value for name, value in options.items() if name not in (REGEX_OPTION, REGEX_MODE_OPTION)
        }
    return BootstrapRequest(
        database=database,
        name=name,
        record_key=tuple(field.strip() for field in arguments.rowKey_field.split(",")),
        source_path=arguments.bootstrap_path,
        target_path=arguments.base_path,
        table_type=parse_table_type(arguments.table_type),
        partition_by=parse_partition_by(fields) if fields else None,
        parallelism=arguments.parallelism if "parallelism" in arguments.given else None,
        # Apache Hudi accepts repeated keys and unsafe types, and refuses null keys.
        key_check="nulls",
        on_unsafe_type=UnsafeTypePolicy.WARN,
        sync=arguments.enable_hive_sync,
        key_generator_class=(
            arguments.key_generator_class if "key_generator_class" in arguments.given else None
        ),
        options=options,
    )


def _refuse_what_only_hudi_does(arguments: RunBootstrapArguments) -> None:
    allowed: Mapping[str, tuple[str, ...]] = {
        "base_file_format": ("PARQUET",),
        "bootstrap_index_class": (
            HFILE_BOOTSTRAP_INDEX,
            f"{_HUDI}.common.bootstrap.index.HFileBootstrapIndex",
        ),
        "schema_provider_class": ("",),
    }
    for name, values in allowed.items():
        value = getattr(arguments, name)
        if value.upper() not in [value.upper() for value in values]:
            hint = f"it can be {values[0]}" if values[0] else "leave it out: the files give the schema"
            raise InvalidArgumentError(f"run_bootstrap: {name} '{value}' is not supported", hint=hint)


def _check_empty(context: Context, base_path: str) -> None:
    path = context.storage.qualify(base_path)
    if any(context.storage.list_directories([path], missing_ok=True)):
        raise InvalidArgumentError(
            f"run_bootstrap: bootstrap_overwrite => true would delete the directory {base_path}",
            hint="drop the table and remove its directory yourself, then call again",
        )


def _options_of_file(context: Context, path: str) -> dict[str, str]:
    if not path:
        return {}
    return parse_properties(context.storage.read(context.storage.qualify(path)))
