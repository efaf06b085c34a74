"""Dependencies point one way (DESIGN): cli → session → sql, procedures → the work → table → format."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("hudisql", "pyspark_hudisql", "pyspark_hudisql_full_name")

GROUND = {"errors", "retry", "storage", "sql_literals"}
FACE = {"console", "config", "java_runtime", "kerberos"}
FORMAT = GROUND | {"format"}
TABLE = FORMAT | {"table"}
WORK = TABLE | FACE | {"context", "spark", "read", "write", "catalog"}
CALLS = WORK | {"bootstrap", "services", "ingest", "iceberg", "options", "compatibility"}

# What each part may import at run time, itself left out. Nothing is allowed that is not listed.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "retry": set(),
    "sql_literals": set(),
    "storage": {"errors", "retry"},
    "console": {"errors"},
    "java_runtime": {"errors"},
    "kerberos": {"errors"},
    "config": {"errors"},
    "result": {"errors", "spark"},
    "context": {"console", "errors", "config", "storage"},
    "format": GROUND,
    "table": FORMAT,
    "catalog": TABLE | FACE,
    "spark": GROUND | FACE | {"format"},
    "read": TABLE | {"config", "spark"},
    "write": TABLE | {"config", "spark", "read"},
    "bootstrap": WORK,
    "services": WORK | {"iceberg"},
    "ingest": TABLE | FACE | {"context", "read", "write", "catalog", "services"},
    "iceberg": TABLE | {"config", "read"},
    "options": WORK | {"iceberg"},
    "compatibility": TABLE | {"bootstrap", "catalog"},
    "service_process": CALLS - {"bootstrap", "compatibility", "iceberg"},
    "procedures": CALLS | {"service_process"},
    "sql": WORK | {"bootstrap", "services", "options", "procedures", "result"},
    "startup": WORK,
    "session": WORK | {"sql", "options", "result", "startup"},
    "pyspark_names": WORK | {"sql", "session"},
    "migrations": WORK | {"options", "sql", "result", "session"},
    "layers": WORK | {"sql", "result", "session", "migrations"},
    "check": WORK | {"options", "sql", "procedures", "services", "bootstrap", "startup"},
    "server": GROUND
    | FACE
    | {"format", "spark", "catalog", "context", "procedures", "sql", "result", "session", ""},
    "cli": GROUND
    | FACE
    | {
        "spark",
        "session",
        "sql",
        "result",
        "catalog",
        "context",
        "procedures",
        "service_process",
        "ingest",
        "migrations",
        "layers",
        "check",
        "server",
        "",
    },
    "__main__": {"cli"},
    "": {"errors", "pyspark_names", "result", "session", "write"},
    "pyspark_hudisql": TABLE | {"config", "options", "spark", "read", "write", "sql", "catalog"},
    "pyspark_hudisql_full_name": {"pyspark_hudisql"},
}
# The parts of the large packages, from the bottom up: each may import from those before it only.
ORDER_WITHIN: dict[str, tuple[str, ...]] = {
    "format": (
        "encoding",
        "schema",
        "avro",
        "keys",
        "log_file",
        "timeline",
        "payload_classes",
        "table_properties",
        "paths",
        "hfile",
        "metadata_table",
    ),
    "table": (
        "meta_client",
        "file_slice",
        "timeline",
        "hudi_table",
        "listed_again",
        "slicing",
        "metadata_table",
        "partitions",
        "files",
        "history",
        "properties",
    ),
    "iceberg": (
        *("iceberg_location", "iceberg_schema", "data_file", "stored_entries", "manifest_files"),
        *("deletion_vectors", "recent_files", "parallel_reads", "earlier_manifests", "publication_tasks"),
        *("published_state", "published_files", "merged_slices", "snapshot_manifests", "snapshot_totals"),
        *("metadata_files", "manifest_tasks", "snapshot_history", "snapshot_write"),
        *("registered_files", "publication"),
        *("publication_problem", "row_sums", "snapshot_contents"),
        *("published_table", "published_rows", "file_check", "other_readers", "row_comparison"),
        "iceberg_verification",
    ),
    "read": ("calendar", "files", "merge", "slice", "scan", "changes"),
    "write": (
        "changes",
        "overwrite",
        "keygen",
        "handle",
        "index",
        "metadata_table",
        "transaction",
        "execution",
    ),
    "services": (
        "partition_ttl",
        "planned_run",
        "clustering",
        "compaction",
        "clean",
        "archive",
        "version",
        "rollback",
        "schedule",
    ),
    "ingest": (
        "client_config",
        "offsets",
        "parse",
        "index",
        "split",
        "declaration",
        "table_index",
        "table_buffer",
        "flush",
        "row_keys",
        "dead_letters",
        "feed_target",
        "table_feed",
        "fed_table",
        "event_source",
        "ownership",
        "uvicorn_thread",
        "push",
        "kafka",
        "watch",
        "source_readers",
        "table_commits",
        "worker",
    ),
    "bootstrap": (
        "blockers",
        "type_safety",
        "source",
        "files",
        "lease",
        "rollback",
        "verify",
        "plan",
        "run",
        "resync",
        "migrate_table",
    ),
    "options": (
        "insert_options",
        "known_settings",
        "extra_metadata",
        "unserved_settings",
        "table_settings",
        "writer_settings",
        "iceberg_sync",
        "iceberg_check",
        "table_call",
    ),
    "service_process": ("tables", "ingest"),
    "procedures": (
        "unsupported",
        "registry",
        "finding_rows",
        "binder",
        "help",
        "bootstrap",
        "ingest",
        "show",
        "services",
    ),
    "sql": (
        "text",
        "query",
        "schema",
        "dml",
        "ddl",
        "dataframe",
        "incremental_tables",
        "spark_scripts",
        "explain",
        "procedure_call",
        "catalog_names",
        "spark_databases",
        "about_table",
        "executor",
        "dispatch",
        "concerned_tables",
        "named_reads",
        "named_writes",
    ),
}
PRIVATE_IN_PYSPARK = {
    *("_activeSession", "_collect_as_arrow", "_ensure_initialized", "_gateway", "_gateway_client"),
    *("_instantiatedSession", "_jc", "_jconf", "_jcols", "_jdf", "_jexpr", "_jmap", "_jrdd", "_jreader"),
    *("_jsc", "_jschema", "_jseq", "_jsparkSession", "_jvm", "_jwrite", "_sc", "_schema", "_to_java_column"),
}
# Parts that must be usable without Spark and without a metastore.
WITHOUT_SPARK = ("errors", "storage", "format", "table", "config", "console")


def modules() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def part_of(module: str) -> str:
    """`hudisql.format.schema.avro_schema` → format; `hudisql` itself → the empty name."""
    names = module.split(".")
    if names[0] != "hudisql":
        return names[0]
    return names[1] if len(names) > 1 else ""


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def run_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below, but for what only type checkers read."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt) and is_type_checking(child):
            continue
        yield child
        yield from run_time_nodes(child)


def imported_modules(tree: ast.Module, *, at_run_time: bool) -> Iterator[str]:
    for node in run_time_nodes(tree) if at_run_time else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name their module in full"
            module = node.module or ""
            directory = ROOT.joinpath(*module.split("."))
            # `from hudisql import x` may name a module or a value of the package.
            for alias in node.names:
                is_module = any((directory / f"{alias.name}{end}").exists() for end in (".py", ""))
                yield f"{module}.{alias.name}" if is_module else module


@pytest.mark.parametrize("path", modules(), ids=module_name)
def test_module_imports_only_what_its_layer_may(path: Path) -> None:
    part = part_of(module_name(path))
    assert part in ALLOWED, f"{path} belongs to no layer"
    tree = ast.parse(path.read_text())
    used = {
        part_of(name) for name in imported_modules(tree, at_run_time=True) if name.split(".")[0] in PACKAGES
    }
    assert used - ALLOWED[part] - {part} == set()


@pytest.mark.parametrize(
    "path", [path for path in modules() if module_name(path) != "hudisql.spark.jvm"], ids=module_name
)
def test_private_attributes_of_pyspark_are_used_by_one_module(path: Path) -> None:
    attributes = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute))
    of_others = (node for node in attributes if ast.unparse(node.value) != "self")
    assert [node.attr for node in of_others if node.attr in PRIVATE_IN_PYSPARK] == []


@pytest.mark.parametrize(
    "path",
    [path for path in modules() if "options" in ALLOWED[part_of(module_name(path))]],
    ids=module_name,
)
def test_tables_of_a_session_are_opened_by_its_settings(path: Path) -> None:
    if "pyspark_hudisql" in path.parts:
        return  # Spark's data source has options, and no session.
    imports = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom))
    names = {
        alias.name for node in imports if node.module == "hudisql.table.hudi_table" for alias in node.names
    }
    assert "open_table" not in names, "open_session_table of hudisql.options.table_call opens it"


def inner_part_of(module: str) -> str:
    """`hudisql.write.index.key_lookup` → index."""
    names = module.split(".")
    return names[2] if len(names) > 2 else ""


@pytest.mark.parametrize(
    "path", [path for path in modules() if part_of(module_name(path)) in ORDER_WITHIN], ids=module_name
)
def test_module_imports_only_from_the_parts_below_it(path: Path) -> None:
    package, inner = part_of(module_name(path)), inner_part_of(module_name(path))
    if not inner:
        return
    order = ORDER_WITHIN[package]
    assert inner in order, f"{path} belongs to no part of {package}"
    imported = imported_modules(ast.parse(path.read_text()), at_run_time=True)
    used = {inner_part_of(name) for name in imported if name.startswith(f"hudisql.{package}.")}
    assert used - {inner} - set(order[: order.index(inner)]) == set()


@pytest.mark.parametrize(
    "path", [path for path in modules() if part_of(module_name(path)) in WITHOUT_SPARK], ids=module_name
)
def test_format_and_table_know_neither_spark_nor_metastore(path: Path) -> None:
    names = list(imported_modules(ast.parse(path.read_text()), at_run_time=True))
    assert not [name for name in names if name.split(".")[0] in ("pyspark", "py4j", "hmsclient", "thrift")]
    assert not [name for name in names if name.startswith("hudisql.catalog")]


def test_no_modules_import_each_other() -> None:
    names = {module_name(path): path for path in modules()}
    imports = {
        name: names.keys() & set(imported_modules(ast.parse(path.read_text()), at_run_time=False)) - {name}
        for name, path in names.items()
    }
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the modules


def test_no_module_has_two_jobs_by_its_size() -> None:
    long = {module_name(path): len(path.read_text().splitlines()) for path in modules()}
    assert {name: lines for name, lines in long.items() if lines > 500} == {}


def test_no_module_is_named_after_nothing() -> None:
    empty_names = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}
    assert [path for path in modules() if path.stem in empty_names] == []


def test_no_two_modules_have_one_name() -> None:
    """Commands of the command line are named after the packages that they call."""
    stems = Counter(
        path.stem
        for path in modules()
        if path.stem != "__init__" and path.parent.name not in ("cli", "hudisql")
    )
    assert {stem: number for stem, number in stems.items() if number > 1} == {}
