"""The preconditions of a bootstrap: names, keys, types, codecs, directories.

Each check takes values and returns findings; all checks run, so that a user sees every blocker at once.
`type_safety` has the facts about incompatible types. Knows no Spark and writes nothing.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import pyarrow as pa

from hudisql.bootstrap.blockers import Finding, blocker, count_files, name_some, warning
from hudisql.bootstrap.files.skeleton import SkeletonEncoding
from hudisql.bootstrap.lease.target_state import TargetState, read_target_state
from hudisql.bootstrap.plan.bootstrap_mode import PartitionMismatchPolicy
from hudisql.bootstrap.source.footers import NOT_PARQUET, FileFooter, SourceSchema, files_by_schema
from hudisql.bootstrap.source.source_files import BootstrapSource, PartitionColumn, SourcePartition
from hudisql.bootstrap.type_safety import CODEC_INCOMPATIBILITIES, UNSHARED_CODECS
from hudisql.errors import InvalidArgumentError
from hudisql.format.paths.partition_path import partition_path
from hudisql.format.schema.avro_schema import is_avro_name
from hudisql.format.schema.meta_columns import is_meta_column
from hudisql.format.schema.spark_schema import spark_type_name
from hudisql.format.table_properties import PROPERTIES_FILE
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.sql_literals import quote_string
from hudisql.storage import Storage, is_inside, join
from hudisql.table.properties.new_table import key_generator_class
from hudisql.table.properties.version_properties import GENERATOR_CLASSES

_META_PREFIX = "_hoodie_"
_MOST_PATTERNS: Final = 5


def check_footers(footers: Sequence[FileFooter]) -> Iterator[Finding]:
    """Blockers for files that cannot be read as parquet."""
    problems: dict[str, list[str]] = defaultdict(list)
    for footer in footers:
        if footer.problem is not None:
            problems[footer.problem].append(footer.path)
    data_extensions = {_extension_of(footer.path) for footer in footers if footer.problem is None}
    for problem, paths in problems.items():
        ways = tuple(_ways_to_ignore(paths, data_extensions)) if _is_other_format(problem) else ()
        if len(paths) == 1:
            yield blocker(f"{paths[0]} {problem}", ways=ways)
        else:
            yield blocker(f"each {problem}: {name_some(paths)}", ways=ways)


def _is_other_format(problem: str) -> bool:
    """True for a file of another format; a broken parquet file may hold the only copy of rows."""
    return problem == NOT_PARQUET or problem.endswith(", not parquet")


def _ways_to_ignore(paths: Sequence[str], data_extensions: Collection[str]) -> Iterator[str]:
    """The parameter that leaves the files out, by their extensions where these are no data file's."""
    patterns = set()
    for name in {path.rpartition("/")[2] for path in paths}:
        extension = _extension_of(name)
        patterns.add(f"*.{extension}" if extension and extension not in data_extensions else name)
    if data_extensions and len(patterns) <= _MOST_PATTERNS and not any(map(_is_named_parquet, patterns)):
        yield f"ignore => '{','.join(sorted(patterns))}' leaves out files by name"


def _extension_of(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[2] if "." in path.rpartition("/")[2] else ""


def _is_named_parquet(name: str) -> bool:
    return name.endswith(".parquet")


def check_file_names(footers: Sequence[FileFooter]) -> Iterator[Finding]:
    """A warning for data files that Apache Hudi's writers do not recognize as parquet."""
    if others := [footer.path for footer in footers if not _is_named_parquet(footer.path)]:
        yield warning(
            f"named without .parquet: {name_some(others)}: Hudi 0.15 goes by the extension and cannot"
            " read these files (1.2 can)"
        )


def check_column_names(footers: Sequence[FileFooter], schema: pa.Schema) -> Iterator[Finding]:
    """Blockers for names that Hudi's schema does not allow or that readers would confuse."""
    files = files_by_schema(footers)
    names = sorted({column.name for file in files for column in file.columns} | set(schema.names))
    if reserved := [name for name in names if is_meta_column(name) or name.lower().startswith(_META_PREFIX)]:
        yield blocker(
            f"names that Hudi reserves: {name_some(reserved, 'column')}",
            hint="the files were written by Hudi; read the table they belong to, or rename the columns",
        )
    refused = [name for name in names if not is_avro_name(name)]
    refused += sorted(
        {path for field in schema for path in _nested_names(field.type, field.name) if path not in names}
    )
    if refused:
        yield blocker(
            f"names that Avro, and so Hudi's schema, does not allow: {name_some(refused, 'column')}",
            hint="only letters, digits and _ are allowed, and no digit first: rename them in the files",
        )
    for file_schema in files:
        clashes = _equal_but_for_case([column.name for column in file_schema.columns])
        for column in file_schema.columns:
            clashes += _nested_clashes(column.type, column.name)
        if clashes:
            yield blocker(
                f"columns that differ only in case: {name_some(clashes, 'column')}",
                hint="Hive and Spark cannot distinguish them: rename one in the files",
            )
            break


def check_inside_values(
    partitions: Sequence[SourcePartition],
    by_partition: Sequence[Sequence[FileFooter]],
    columns: Sequence[PartitionColumn],
    policy: PartitionMismatchPolicy,
) -> Iterator[Finding]:
    """Findings on partition columns that are also columns of the files: the directory's value has priority.

    A file with another value stops the bootstrap, unless the policy is to warn.
    """
    inside: dict[str, list[str]] = defaultdict(list)
    differing: dict[str, list[str]] = defaultdict(list)
    positions = {column.name.lower(): position for position, column in enumerate(columns)}
    for partition, footers in zip(partitions, by_partition, strict=True):
        for footer in footers:
            for inside_values in footer.inside:
                inside[inside_values.column].append(footer.path)
                text = partition.values[positions[inside_values.column.lower()]]
                if inside_values.differ_from(text):
                    differing[inside_values.column].append(f"{footer.path} ({inside_values})")
    for name, paths in sorted(inside.items()):
        if not differing[name]:
            yield warning(
                f"partition column {name} is also a column inside {name_some(paths)}, with the "
                "directory's value"
            )
    for name, described in sorted(differing.items()):
        if not described:
            continue
        text = (
            f"partition column {name} is also a column inside the files, with another value than "
            "the directory's"
            f" in {name_some(described)}"
        )
        if policy is PartitionMismatchPolicy.WARN:
            yield warning(f"{text}: the directory's value counts")
        else:
            yield blocker(
                text,
                hint="correct the files; or give on_partition_mismatch => 'warn': the directory's value "
                "counts,"
                " as in Spark and Hive",
            )


def _nested_names(data_type: pa.DataType, where: str) -> Iterator[str]:
    """Dotted paths of struct fields whose names Avro does not allow."""
    if pa.types.is_struct(data_type):
        for field in data_type:
            if not is_avro_name(field.name):
                yield f"{where}.{field.name}"
            yield from _nested_names(field.type, f"{where}.{field.name}")
    elif pa.types.is_list(data_type):
        yield from _nested_names(data_type.value_type, where)
    elif pa.types.is_map(data_type):
        yield from _nested_names(data_type.item_type, where)


def _equal_but_for_case(names: Sequence[str]) -> list[str]:
    by_lower: dict[str, list[str]] = defaultdict(list)
    for name in names:
        by_lower[name.lower()].append(name)
    return sorted(name for group in by_lower.values() if len(group) > 1 for name in group)


def _nested_clashes(data_type: pa.DataType | None, where: str) -> list[str]:
    """Dotted paths of struct fields that differ only in case."""
    if data_type is None or not pa.types.is_nested(data_type):
        return []
    if pa.types.is_struct(data_type):
        own = _equal_but_for_case([field.name for field in data_type])
        deeper = [
            path for field in data_type for path in _nested_clashes(field.type, f"{where}.{field.name}")
        ]
        return [f"{where}.{name}" for name in own] + deeper
    return _nested_clashes(data_type.item_type if pa.types.is_map(data_type) else data_type.value_type, where)


def check_encodings(footers: Sequence[FileFooter]) -> Iterator[Finding]:
    """Findings on the codecs and encodings of unchanged files that a reader does not support."""
    codecs: dict[str, list[str]] = defaultdict(list)
    delta = 0
    for footer in footers:
        for codec in footer.codecs:
            codecs[codec].append(footer.path)
        delta += footer.has_unreadable_delta_pages
    for codec, paths in sorted(codecs.items()):
        if codec in UNSHARED_CODECS:
            yield blocker(
                f"{codec.lower()} compression in {name_some(paths)}: Hive 2.3 and Spark have no such codec",
                hint="mode => 'full_record' or full_record_where rewrites them",
            )
        elif codec in CODEC_INCOMPATIBILITIES:
            yield warning(
                f"{codec.lower()} compression in {count_files(len(paths))}: {CODEC_INCOMPATIBILITIES[codec]}"
            )
    if delta:
        yield warning(
            f"DELTA_BYTE_ARRAY pages of a writer that names no build in {count_files(delta)}:"
            " Hive 2.3 fails on them (PARQUET-246)"
        )


def check_written_files(skeleton_encoding: str, codec: str) -> Iterator[Finding]:
    """Findings on the encoding and the codec of the files that the bootstrap writes."""
    if skeleton_encoding == SkeletonEncoding.DELTA:
        yield warning("skeleton_encoding => 'delta': Hive 2.3 cannot read the meta columns (PARQUET-246)")
    if codec.upper() in CODEC_INCOMPATIBILITIES:
        yield warning(f"{codec} compression of the files written: {CODEC_INCOMPATIBILITIES[codec.upper()]}")


def describe_unreadable(footers: Sequence[FileFooter]) -> tuple[str, ...]:
    """One partition's unreadable files, in short."""
    broken = sum(footer.problem is not None for footer in footers)
    return (f"{count_files(broken)} cannot be read as parquet",) if broken else ()


def resolve_column(path: str, schema: pa.Schema) -> tuple[str, pa.DataType] | None:
    """The schema's spelling and type of a column path (`a`, `a.b`), found in any case."""
    fields = list(schema)
    spelled: list[str] = []
    found: pa.DataType | None = None
    for part in path.split("."):
        field = next((one for one in fields if one.name == part), None) or next(
            (one for one in fields if one.name.lower() == part.lower()), None
        )
        if field is None:
            return None
        spelled.append(field.name)
        found = field.type
        fields = list(field.type) if pa.types.is_struct(field.type) else []
    return None if found is None else (".".join(spelled), found)


def check_key_columns(
    record_key: Sequence[str],
    precombine: str | None,
    schema: pa.Schema,
    partition_columns: Sequence[PartitionColumn],
) -> Iterator[Finding]:
    """Blockers for missing or unsuitable key and ordering columns."""
    partition_names = {column.name.lower() for column in partition_columns}
    if record_key and all(path.lower() in partition_names for path in record_key):
        yield blocker(
            f"the record key {','.join(record_key)} names partition columns alone: all rows of a partition"
            " would have one key",
            hint="add the columns that identify a row of a partition",
        )
    for path in record_key:
        resolved = resolve_column(path, schema)
        if resolved is None:
            yield _unknown_column("record key", path, schema)
        elif pa.types.is_nested(resolved[1]) or pa.types.is_binary(resolved[1]):
            yield blocker(
                f"record key column {path} is {spark_type_name(resolved[1])}: a key must be a plain value"
            )
    spelled = [path.lower() for path in record_key]
    if repeated := sorted({path for path in record_key if spelled.count(path.lower()) > 1}):
        yield blocker(f"the record key names {', '.join(repeated)} twice")
    if precombine is not None:
        resolved = resolve_column(precombine, schema)
        if resolved is None:
            yield _unknown_column("precombine", precombine, schema)
        elif pa.types.is_nested(resolved[1]):
            yield blocker(
                f"precombine column {precombine} is {spark_type_name(resolved[1])}: it cannot be ordered"
            )


def _unknown_column(role: str, path: str, schema: pa.Schema) -> Finding:
    names = list(_column_paths(schema))
    near = difflib.get_close_matches(path.lower(), [name.lower() for name in names], n=3, cutoff=0.5)
    spelled = [name for name in names if name.lower() in near]
    hint = (
        f"did you mean {' or '.join(spelled)}?"
        if spelled
        else f"the columns are {name_some(names, 'column')}"
    )
    return blocker(f"there is no {role} column {path}", hint=hint)


def _column_paths(schema: pa.Schema) -> Iterator[str]:
    for field in schema:
        yield field.name
        if pa.types.is_struct(field.type):
            yield from (f"{field.name}.{child.name}" for child in field.type)


def check_key_generator(
    key_generator: str | None, record_key: Sequence[str], partition_columns: Sequence[PartitionColumn]
) -> None:
    """Raise InvalidArgumentError if the key generator makes other keys or paths than the table has."""
    if key_generator is None:
        return
    needed = key_generator_class(record_key, partition_columns)
    requested, plain = key_generator.rsplit(".", 1)[-1], needed.rsplit(".", 1)[-1]
    requested = GENERATOR_CLASSES.get(requested.upper(), requested)
    # With one key and one partition column the complex generator makes the same keys and paths as the simple
    # one.
    if requested == plain or (plain == "SimpleKeyGenerator" and requested == "ComplexKeyGenerator"):
        return
    raise InvalidArgumentError(
        f"key_generator_class '{key_generator}' does not fit a table with the record key"
        f" {', '.join(record_key)} and {len(partition_columns)} partition columns",
        hint=f"it needs {needed}",
    )


def check_keys_in_files(
    record_key: Sequence[str], footers: Sequence[FileFooter], schema: pa.Schema
) -> Iterator[Finding]:
    """Blockers for key columns that files lack, or whose text differs in the table's type."""
    files = files_by_schema(footers)
    for path in record_key:
        wanted = resolve_column(path, schema)
        if wanted is None:
            continue
        resolved_columns = {
            file_schema: resolve_column(path, _stored_schema(file_schema)) for file_schema in files
        }
        lacking = [
            path
            for file_schema, paths in files.items()
            if resolved_columns[file_schema] is None
            for path in paths
        ]
        if not any(resolved_columns.values()):
            yield blocker(f"record key column {path} is in no file: every key would be null")
        elif lacking:
            yield blocker(
                f"record key column {path} is missing in {name_some(lacking)}: every key there would be null",
                hint="choose another key, or leave the partitions of these files out",
            )
        narrower = {resolved[1] for resolved in resolved_columns.values() if resolved is not None} - {
            wanted[1]
        }
        if pa.types.is_floating(wanted[1]) and narrower:
            yield blocker(
                f"record key column {path} is {spark_type_name(narrower.pop())} in the files and"
                f" {spark_type_name(wanted[1])} in the table: later upserts would not find the keys",
                hint="choose another key, or correct the metastore's type",
            )


def _stored_schema(file_schema: SourceSchema) -> pa.Schema:
    return pa.schema(
        [(column.name, column.type) for column in file_schema.columns if column.type is not None]
    )


def check_key_statistics(record_key: Sequence[str], footers: Sequence[FileFooter]) -> Iterator[Finding]:
    """A blocker if the footers' statistics show nulls in a single key column."""
    nulls = [(footer.key_nulls, footer.path) for footer in footers if footer.key_nulls]
    if len(record_key) == 1 and nulls:
        total = sum(count for count, _ in nulls if count)
        yield blocker(
            f"record key column {record_key[0]} is null in {total:,} rows of"
            f" {name_some([path for _, path in nulls])}",
            hint="choose another key, or accept the rows with key_check => 'none'",
        )


def check_url_encoding(source: BootstrapSource) -> Iterator[Finding]:
    """A blocker if only some directories are Hive-escaped; a warning about readers of escaped ones."""
    if not (source.is_url_encoded and source.is_hive_style):
        return
    yield warning(
        "some partition directories are Hive-escaped: Hudi 0.15 shows their escaped text as the partition"
        " column's value until a file is rewritten (1.2 shows the value)"
    )
    names = [column.name for column in source.partition_columns]
    escaped = [
        partition.path
        for partition in source.partitions
        if partition_path(names, partition.values, hive_style=True, url_encode=True) != partition.path
    ]
    if escaped:
        yield blocker(
            "some partition directories are Hive-escaped and others are not:"
            f" {name_some(escaped, 'directory')}",
            hint="rename them to their escaped form, or register the partitions in the metastore and use"
            " source_table",
        )


def check_target(
    storage: Storage, target: str, source: BootstrapSource, *, resumes: bool = False
) -> Iterator[Finding]:
    """Blockers for a taken target or one that overlaps the source; `resumes` allows an unfinished run."""
    taken = (partition.location for partition in source.partitions)
    directories = {source.base_path, *taken, *source.other_locations}
    resolved_target = storage.resolve(target)
    for directory in sorted(directories):
        resolved = storage.resolve(directory)
        if is_inside(resolved_target, resolved):
            yield blocker(
                f"the target {target} lies inside the source {directory}", hint="choose a directory beside it"
            )
            return
        if is_inside(resolved, resolved_target):
            yield blocker(
                f"the source {directory} lies inside the target {target}", hint="choose a directory beside it"
            )
            return
    if problem := storage.creation_problem(target):
        yield blocker(
            f"the target {target} cannot be made: {problem}",
            hint="choose a target_path that the user who runs hudisql may write",
        )
        return
    if not storage.exists(target):
        return
    children = storage.list_directory(target)
    if not children:
        return
    if storage.exists(join(target, PROPERTIES_FILE)):
        yield blocker(f"the target {target} is a Hudi table already", hint="choose another target_path")
    elif any(child.name == METADATA_DIRECTORY for child in children):
        if resumes and read_target_state(storage, target) is TargetState.RUN:
            yield warning(f"the target {target} holds a bootstrap that did not finish: it is resumed")
            return
        yield blocker(
            f"the target {target} is not empty: it holds a bootstrap that did not finish",
            hint="no reader sees it; resume => true continues it, and"
            f" CALL rollback_bootstrap(path => {quote_string(target)}) deletes it",
        )
    else:
        yield blocker(
            f"the target {target} is not empty: {name_some([child.name for child in children], 'entry')}",
            hint="choose another target_path, or empty the directory",
        )
