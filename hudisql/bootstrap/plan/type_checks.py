"""The consequences of column types in files for a bootstrap: stop, warn, or rewrite the partition.

Takes the footers partition by partition with the modes chosen so far, and the table of `type_safety`. Values
in, values out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from hudisql.bootstrap.blockers import Finding, blocker, count_files, name_some, warning
from hudisql.bootstrap.plan.bootstrap_mode import BootstrapMode, UnsafeTypePolicy
from hudisql.bootstrap.source.footers import FileFooter, files_by_schema
from hudisql.bootstrap.type_safety import TYPE_INCOMPATIBILITIES, TypeIncompatibility
from hudisql.format.schema.spark_schema import spark_type_name

_Hits = dict[tuple[str, str], list[str]]
_REWRITE_PARTITIONS: Final = "on_unsafe_type => 'full_record' rewrites just the partitions of such files"
_INT96_CONVERSION: Final = "spark.sql.parquet.int96TimestampConversion"
_TAKE_AS_IS: Final = "on_unsafe_type => 'warn' keeps the files, for readers and writers that are compatible"
_REWRITE_LATER: Final = "CALL rewrite_bootstrap_files rewrites just these file groups later"


@dataclass(frozen=True, slots=True)
class TypeVerdict:
    """The mode of each partition after unsafe types are handled, and the findings.

    `unsafe` are the columns that stay stored in an unsafe way, with the names of their incompatibilities.
    """

    modes: tuple[BootstrapMode, ...]
    findings: tuple[Finding, ...]
    unsafe: Mapping[str, tuple[str, ...]]


def classify_types(
    partitions: Sequence[Sequence[FileFooter]],
    modes: Sequence[BootstrapMode],
    policy: UnsafeTypePolicy,
    schema: pa.Schema,
) -> TypeVerdict:
    """Decide on every incompatibility of every file; `partitions` and `modes` correspond to each other."""
    left: _Hits = defaultdict(list)
    rewritten: _Hits = defaultdict(list)
    decided = []
    for footers, mode in zip(partitions, modes, strict=True):
        hits = _incompatibilities_of(footers)
        fixable = {key: paths for key, paths in hits.items() if _is_fixable(TYPE_INCOMPATIBILITIES[key[1]])}
        if policy is UnsafeTypePolicy.FULL_RECORD and fixable and mode is BootstrapMode.METADATA_ONLY:
            mode = BootstrapMode.FULL_RECORD
            for key, paths in fixable.items():
                rewritten[key] += paths
        for key, paths in hits.items():
            is_kept = mode is not BootstrapMode.FULL_RECORD
            if is_kept or not TYPE_INCOMPATIBILITIES[key[1]].fixed_by_full_record:
                left[key] += paths
        decided.append(mode)
    types = {field.name: field.type for field in schema}
    findings = [_finding(key, paths, types, policy) for key, paths in sorted(left.items())]
    findings += [
        warning(
            f"{_subject(key, types)} in {count_files(len(paths))}: the partitions of these files are"
            " rewritten"
        )
        for key, paths in sorted(rewritten.items())
    ]
    unsafe: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for column, name in sorted(left):
        if TYPE_INCOMPATIBILITIES[name].is_unsafe:
            unsafe[column] += (name,)
    return TypeVerdict(tuple(decided), tuple(findings), dict(unsafe))


def check_int96_conversion(spark: Any, footers: Sequence[FileFooter]) -> Iterator[Finding]:
    """A blocker if Spark would shift INT96 timestamps of other writers, such as Impala, unlike hudisql."""
    if spark.conf.get(_INT96_CONVERSION, "false").lower() != "true":
        return
    paths = {
        path
        for (_, name), files in _incompatibilities_of(footers).items()
        if name == "int96"
        for path in files
    }
    if paths:
        yield blocker(
            f"{_INT96_CONVERSION} is true, by which Spark shifts INT96 timestamps of some writers by the"
            f" session's time zone, but hudisql takes them as UTC: {name_some(sorted(paths))}",
            hint="set it to false if they are UTC, else rewrite the files by Spark first",
        )


def describe_types(
    footers: Sequence[FileFooter], mode: BootstrapMode, policy: UnsafeTypePolicy
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """One partition's blockers and warnings in short; readers are named once for the table."""
    blockers: list[str] = []
    warnings: list[str] = []
    for (column, name), paths in sorted(_incompatibilities_of(footers).items()):
        incompatibility = TYPE_INCOMPATIBILITIES[name]
        text = f"column {column}: {incompatibility.stored} in {count_files(len(paths))}"
        if mode is BootstrapMode.FULL_RECORD and incompatibility.fixed_by_full_record:
            warnings.append(f"{text}, rewritten")
        else:
            (blockers if _stops(incompatibility, policy) else warnings).append(text)
    return tuple(blockers), tuple(warnings)


def _incompatibilities_of(footers: Sequence[FileFooter]) -> _Hits:
    hits: _Hits = defaultdict(list)
    for file_schema, paths in files_by_schema(footers).items():
        for column in file_schema.columns:
            for name in column.incompatibilities:
                hits[column.name, name] += paths
    return hits


def _is_fixable(incompatibility: TypeIncompatibility) -> bool:
    return incompatibility.fixed_by_full_record and (incompatibility.is_unsafe or incompatibility.is_blocker)


def _stops(incompatibility: TypeIncompatibility, policy: UnsafeTypePolicy) -> bool:
    return incompatibility.is_blocker or (incompatibility.is_unsafe and policy is not UnsafeTypePolicy.WARN)


def _finding(
    key: tuple[str, str], paths: Sequence[str], types: Mapping[str, pa.DataType], policy: UnsafeTypePolicy
) -> Finding:
    incompatibility = TYPE_INCOMPATIBILITIES[key[1]]
    consequences = "; ".join(incompatibility.consequences)
    if not _stops(incompatibility, policy):
        is_rewritable = _is_fixable(incompatibility)
        files = name_some(sorted(paths)) if is_rewritable else count_files(len(paths))
        return warning(
            f"{_subject(key, types)} in {files}: {consequences}",
            hint=_REWRITE_LATER if is_rewritable else incompatibility.hint,
        )
    return blocker(
        f"{_subject(key, types)} in {_name_one(paths)}: {consequences}",
        hint=incompatibility.hint,
        ways=tuple(_ways_out(incompatibility, policy)),
    )


def _ways_out(incompatibility: TypeIncompatibility, policy: UnsafeTypePolicy) -> Iterator[str]:
    if incompatibility.fixed_by_full_record and policy is not UnsafeTypePolicy.FULL_RECORD:
        yield _REWRITE_PARTITIONS
    if incompatibility.is_unsafe and not incompatibility.is_blocker:
        yield _TAKE_AS_IS


def _name_one(paths: Sequence[str]) -> str:
    first = min(paths)
    return f"1 file: {first}" if len(paths) == 1 else f"{count_files(len(paths))}, such as {first}"


def _subject(key: tuple[str, str], types: Mapping[str, pa.DataType]) -> str:
    column, name = key
    type_text = f" ({spark_type_name(types[column])})" if column in types else ""
    return f"column {column}{type_text}: {TYPE_INCOMPATIBILITIES[name].stored}"
