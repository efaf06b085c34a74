"""Dependencies point one way (DESIGN): cli → session → sql, procedures → the work → table → format."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("hudisql", "pyspark_hudisql")

GROUND = {"errors", "storage", "sql_literals"}
FACE = {"console", "settings", "java_runtime", "hudi_config"}
FORMAT = GROUND | {"format"}
TABLE = FORMAT | {"table"}
WORK = TABLE | FACE | {"context", "spark", "read", "write", "catalog"}

# What each part may import at run time, itself left out. Nothing is allowed that is not listed.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "sql_literals": set(),
    "storage": {"errors"},
    "console": {"errors"},
    "java_runtime": {"errors"},
    "settings": {"errors"},
    "config_key": {"errors"},
    "hudi_config": {"config_key", "errors"},
    "result": {"errors", "spark"},
    "context": {"console", "errors", "settings", "storage"},
    "format": GROUND,
    "table": FORMAT,
    "catalog": TABLE | FACE,
    "spark": GROUND | FACE | {"format"},
    "read": TABLE | {"hudi_config", "spark"},
    "write": TABLE | {"hudi_config", "spark", "read"},
    "bootstrap": WORK,
    "services": WORK,
    "ingest": TABLE | FACE | {"context", "read", "write", "catalog", "services"},
    "readers": TABLE | {"bootstrap", "catalog"},
    "procedures": WORK | {"bootstrap", "services", "ingest", "readers"},
    "sql": WORK | {"bootstrap", "services", "ingest", "procedures", "result"},
    "startup": WORK,
    "session": WORK | {"sql", "procedures", "result", "startup"},
    "migrate": WORK | {"sql", "procedures", "result", "session"},
    "layers": WORK | {"sql", "result", "session", "migrate"},
    "check": WORK | {"sql", "procedures", "services", "bootstrap", "startup"},
    "server": GROUND | FACE | {"format", "spark", "catalog", "context", "sql", "result", "session", ""},
    "cli": GROUND
    | FACE
    | {
        "session",
        "sql",
        "result",
        "catalog",
        "context",
        "procedures",
        "ingest",
        "migrate",
        "layers",
        "check",
        "server",
        "",
    },
    "__main__": {"cli"},
    "": {"errors", "result", "session", "write"},
    "pyspark_hudisql": TABLE | {"hudi_config", "spark", "read", "write", "sql"},
}
# The parts of the large packages, from the bottom up: each may import from those before it only.
ORDER_WITHIN: dict[str, tuple[str, ...]] = {
    "write": (
        "changes",
        "overwrite",
        "keygen",
        "handle",
        "index",
        "transaction",
        "execution",
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
        "known_partitions",
        "row_keys",
        "dead_letters",
        "table_feed",
        "event_source",
        "ownership",
        "push",
        "kafka",
        "watch",
        "worker",
    ),
    "bootstrap": (
        "findings",
        "type_safety",
        "source",
        "files",
        "target",
        "rollback",
        "verify",
        "plan",
        "run",
        "resync",
        "migration",
    ),
    "sql": (
        "text",
        "config",
        "query",
        "schema",
        "dml",
        "ddl",
        "dataframe",
        "incremental_tables",
        "services",
        "ingest",
        "spark_scripts",
        "explain_query",
        "explain_dml",
        "procedure_call",
        "executor",
        "dispatch",
    ),
}
# Parts that must be usable without Spark and without a metastore.
WITHOUT_SPARK = ("errors", "storage", "format", "table", "settings", "console")


def modules() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def part_of(module: str) -> str:
    """`hudisql.format.schema` → format; `hudisql` itself → the empty name."""
    names = module.split(".")
    if names[0] == "pyspark_hudisql":
        return "pyspark_hudisql"
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
            if module in PACKAGES:
                # `from hudisql import x` may name a module or a value of the package.
                for alias in node.names:
                    is_module = any((ROOT / module / f"{alias.name}{end}").exists() for end in (".py", ""))
                    yield f"{module}.{alias.name}" if is_module else module
            else:
                yield module


@pytest.mark.parametrize("path", modules(), ids=module_name)
def test_module_imports_only_what_its_layer_may(path: Path) -> None:
    part = part_of(module_name(path))
    assert part in ALLOWED, f"{path} belongs to no layer"
    tree = ast.parse(path.read_text())
    used = {
        part_of(name) for name in imported_modules(tree, at_run_time=True) if name.split(".")[0] in PACKAGES
    }
    assert used - ALLOWED[part] - {part} == set()


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
    names = list(imported_modules(ast.parse(path.read_text()), at_run_time=False))
    assert not [name for name in names if name.split(".")[0] in ("pyspark", "py4j", "hmsclient", "thrift")]
    assert not [name for name in names if name.startswith("hudisql.catalog")]


def test_no_module_has_two_jobs_by_its_size() -> None:
    long = {module_name(path): len(path.read_text().splitlines()) for path in modules()}
    assert {name: lines for name, lines in long.items() if lines > 500} == {}


def test_no_module_is_named_after_nothing() -> None:
    empty_names = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}
    assert [path for path in modules() if path.stem in empty_names] == []
