"""Write the reference pages that the code itself declares: docs/procedures.md, types.md, settings.md,
command-line.md and python-api.md.

`--check` writes nothing and fails if a page is not what the declarations say.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from typer.main import get_command

from hudisql import connect, errors
from hudisql.bootstrap.type_safety import CODEC_INCOMPATIBILITIES, TYPE_INCOMPATIBILITIES
from hudisql.catalog.sync_settings import SYNC_PREFIX, SYNC_SETTINGS
from hudisql.cli.batch import EXIT_CODES, HELP
from hudisql.cli.ingest import ingest_app
from hudisql.cli.layers import layers_app
from hudisql.cli.main import app
from hudisql.cli.migrate import migrate_app
from hudisql.cli.services import services_app
from hudisql.config.hudi_config import CONFIG_KEYS
from hudisql.config.settings import ENVIRONMENT_PREFIX, OUTPUT_FORMATS, SETTINGS, Settings
from hudisql.errors import HudisqlError
from hudisql.procedures.registry import Procedure, load_procedures
from hudisql.pyspark_names.served_session import install
from hudisql.result import Result
from hudisql.session import Session, write_table
from hudisql.sql import procedure_call  # noqa: F401 (declares the procedures of `sql`)
from hudisql.write.execution.commit_files import WriteResult


def main() -> int:
    """Write the pages, or say which are out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    stale = []
    for name, lines in _PAGES.items():
        page, target = "\n".join(lines()) + "\n", options.directory / name
        if not options.check:
            target.write_text(page)
        elif not target.exists() or target.read_text() != page:
            stale.append(str(target))
    if stale:
        print(f"not what the declarations say: {', '.join(stale)}; run `make docs`", file=sys.stderr)
    return 1 if stale else 0


def _procedures_page() -> Iterator[str]:
    yield "# Procedures"
    yield ""
    yield "Made by `make docs` from the declarations in `hudisql/procedures/`; `CALL help()` prints the same."
    yield "Arguments are positional or `name => value`, or positional first and then by name, in the"
    yield "places that Apache Hudi 1.2 gives them; names know no case; a prefix such as `system.` is ignored;"
    yield "without arguments the brackets can be left out. A parameter of Hudi's that has no effect here is"
    yield "taken with a warning. Hudi ignores any other name; here that is an error with the nearest names:"
    yield "an argument that was misspelt must not be ignored."
    groups: dict[str, list[Procedure]] = {title: [] for title in _TASKS.values()}
    for procedure in load_procedures().values():
        groups[_task_of(procedure)].append(procedure)
    yield from ("", "| procedure | |", "|---|---|")
    for title, procedures in groups.items():
        yield f"| **{title}** | |"
        for procedure in procedures:
            yield f"| [`{procedure.name}`](#{procedure.name}) | {_cell(procedure.summary)} |"
    for title, procedures in groups.items():
        yield from ("", f"## {title}")
        for procedure in procedures:
            yield from _section(procedure)


_TASKS: Final[Mapping[str, str]] = {
    "hudisql.procedures.bootstrap": "Move tables in",
    "hudisql.sql.dml": "Move tables in",
    "hudisql.procedures.show": "Look at a table",
    "hudisql.procedures.services": "Table services and repair",
    "hudisql.sql": "Change and copy rows",
    "hudisql.procedures.ingest": "Ingest",
    "hudisql.procedures": "Help",
}
"""What the procedures of a package are for; the first package that holds a procedure counts."""


def _task_of(procedure: Procedure) -> str:
    module = procedure.run.__module__
    return next(title for package, title in _TASKS.items() if module.startswith(f"{package}."))


def _section(procedure: Procedure) -> Iterator[str]:
    yield from ("", f"### {procedure.name}", "", procedure.summary, "")
    if procedure.parameters:
        yield "| parameter | type | default | meaning |"
        yield "|---|---|---|---|"
    for parameter in procedure.parameters:
        default = "required" if parameter.required else f"`{parameter.default!r}`"
        if parameter.default is None:
            default = ""
        yield f"| `{parameter.name}` | {parameter.type} | {default} | {_cell(parameter.help)} |"
    columns = ", ".join(f"`{column.name}` {column.type}" for column in procedure.output)
    yield from ("", f"Output: {columns}")


def _types_page() -> Iterator[str]:
    yield "# Types in source files that some reader or writer is incompatible with"
    yield ""
    yield "Made by `make docs` from `hudisql/bootstrap/type_safety.py`. A metadata-only bootstrap leaves the"
    yield "source's physical types as they are; only rewriting the partition changes them."
    yield "hudisql itself reads all but the refused ones correctly."
    yield "`dry_run => true` names the columns and the files before anything is written."
    yield ""
    yield "- **refused**: no partition with such a file can stay as it is."
    yield "- **unsafe**: some reader or writer gets it wrong. `on_unsafe_type => 'fail'` (the default) stops,"
    yield "  `'warn'` continues, `'full_record'` rewrites only the partitions of these files."
    yield "- **warning**: a warning only, whatever `on_unsafe_type` says."
    yield ""
    yield "| stored as | incompatible readers and writers | bootstrap | fixed by full_record | solution |"
    yield "|---|---|---|---|---|"
    for incompatibility in TYPE_INCOMPATIBILITIES.values():
        verdict = (
            "refused" if incompatibility.is_blocker else "unsafe" if incompatibility.is_unsafe else "warning"
        )
        consequences, hint = _cell("; ".join(incompatibility.consequences)), _cell(incompatibility.hint or "")
        fixed = "yes" if incompatibility.fixed_by_full_record else ""
        yield f"| {_cell(incompatibility.stored)} | {consequences} | {verdict} | {fixed} | {hint} |"
    yield ""
    yield "| compression of the data pages | incompatible readers |"
    yield "|---|---|"
    for codec, text in CODEC_INCOMPATIBILITIES.items():
        yield f"| {codec} | {_cell(text)} |"


def _settings_page() -> Iterator[str]:
    yield "# Settings"
    yield ""
    yield "Made by `make docs` from `hudisql/config/`. First hudisql's own;"
    yield "those of statements (`hoodie.*`) [follow](#settings-of-statements)."
    yield "`hudisql config` prints each with its value and where it came from; values of secrets are masked."
    yield ""
    yield "| setting | type | default | environment | command line | meaning |"
    yield "|---|---|---|---|---|---|"
    defaults, options = Settings(), _options_by_setting()
    for each in SETTINGS:
        value = getattr(defaults, each.name)
        default = (
            ""
            if each.type == "map" or value == ""
            else f"`{str(value).lower() if each.type == 'boolean' else value}`"
        )
        option = f"`{options[each.name]}`" if each.name in options else ""
        name = f"`{ENVIRONMENT_PREFIX}{each.name.upper()}`"
        yield f"| `{each.name}` | {each.type} | {default} | {name} | {option} | {_cell(each.help)} |"
    yield from _SETTINGS_TEXT.splitlines()
    yield from ("", "## Settings of statements", "")
    yield "`SET` sets them for the session, which counts first, `TBLPROPERTIES` for a table, the options of a"
    yield "DataFrame's write (or `options` of a procedure) for one call. Names and defaults are Hudi's,"
    yield "unless the meaning says otherwise. `hoodie.keygen.timebased.*` describe [directories made of"
    yield "dates](tables.md#directories-made-of-dates); other settings of Hudi have no effect."
    yield ""
    yield "| setting | type | default | set by | meaning |"
    yield "|---|---|---|---|---|"
    for key in CONFIG_KEYS:
        default = f"`{key.default}`" if key.default else ""
        yield f"| `{key.name}` | {key.type} | {default} | {key.set_by} | {_cell(key.meaning)} |"
    yield from ("", "## Settings of the metastore sync", "")
    yield "In `options` of `hive_sync`, `bootstrap_table`, `migrate_table` and `run_bootstrap`, each with"
    yield f"`{SYNC_PREFIX}` before it. These are all that Hudi 0.15 has; others are refused by name."
    yield "`hoodie.meta.sync.incremental` and `hoodie.meta.sync.sync_snapshot_with_table_name` are followed,"
    yield "too."
    yield ""
    yield "| setting | hudisql | meaning, or why |"
    yield "|---|---|---|"
    for setting in SYNC_SETTINGS:
        only = (
            f"{setting.treatment.value}: {', '.join(setting.only)}"
            if setting.only
            else setting.treatment.value
        )
        yield f"| `{setting.name}` | {only} | {_cell(setting.reason)} |"


def _options_by_setting() -> dict[str, str]:
    """The command line's option for each setting that has one, the last and longest of its names."""
    names = {parameter.name: max(parameter.opts, key=len) for parameter in get_command(app).params}
    names["format"] = names.pop("form")
    return {name: option for name, option in names.items() if option.startswith("--")}


_SETTINGS_TEXT = """
Later ones win: defaults, then `hudisql.toml`, then the environment, then the command line (or the
arguments of `hudisql.connect`). Maps are merged key by key. Unknown names in `hudisql.toml` are errors,
unknown `HUDISQL_*` variables a warning.

`hudisql.toml` is the file that `HUDISQL_CONFIG` names, else the one in the working directory, else
`$XDG_CONFIG_HOME/hudisql/hudisql.toml` (`~/.config` without it):

```toml
metastore = "thrift://metastore:9083"
master = "yarn"

[conf]
spark.executor.memory = "8g"
"spark.hadoop.fs.s3a.endpoint" = "https://minio:9000"

[hivevar]
day = "2024-03-01"
```

Maps in an environment variable are `key=value key=value`, with quotes where a value has spaces:
`HUDISQL_CONF='spark.executor.memory=8g spark.sql.session.timeZone=UTC'`.

## Other environment variables

| variable | meaning |
|---|---|
| `HUDISQL_CONFIG` | the settings file |
| `JAVA_HOME` | the Java to use; default: a Java 17 on the `PATH`, or that of `pip install hudisql[java]` |
| `PYSPARK_PYTHON` | the Python of Spark's tasks; with a local master hudisql's own by default |
| `SPARK_HOME` | where the embedded metastore finds Spark's jars; PySpark's own by default |
| `XDG_STATE_HOME` | the shell's history is in `hudisql/history` below it (default `~/.local/state`) |
| `XDG_CACHE_HOME` | the packaged Java is unpacked to `hudisql/java` below it (default `~/.cache`); \
`hudisql/classes` has an archive of Spark's classes, some 170 MB for each Java and Spark, so that later \
sessions start faster. The first session with tables writes it when it ends, one unused for 30 days is \
deleted; `SPARK_SUBMIT_OPTS=-Xshare:off` uses none |"""


def _command_line_page() -> Iterator[str]:
    yield "# Command line"
    yield ""
    yield "Made by `make docs` from the declarations in `hudisql/cli/`."
    yield ""
    yield "```"
    yield "hudisql [options]                        a shell, or the script on standard input"
    yield 'hudisql [options] -e "SQL; SQL" -f FILE  statements, then scripts; both options may be repeated'
    yield "hudisql [options] config                 print each setting with its origin"
    yield "hudisql metastore start|stop|status      the warehouse's embedded Hive Metastore"
    yield "hudisql [options] services run           one process that runs the services of many tables"
    yield "hudisql [options] ingest worker          one process that writes events and rows to many tables"
    yield "hudisql [options] ingest status|drain|resume   what operators of workers need"
    yield "hudisql [options] serve                  SQL for beeline, JDBC, ODBC and Python clients"
    yield "hudisql [options] migrate VERB DIR       versioned scripts, each applied once"
    yield "hudisql [options] run VERB DIR           incremental tables, refreshed in order and tested"
    yield "hudisql [options] check FILES|DIR        what is wrong with scripts, without running them"
    yield "hudisql init DIR                         a project of migrations"
    yield "```"
    yield from ("", "## Options", "", "| option | meaning |", "|---|---|")
    for parameter in get_command(app).params:
        names = ", ".join(f"`{name}`" for name in parameter.opts)
        value = "" if parameter.is_flag else f" {parameter.metavar or 'TEXT'}"
        yield f"| {names}{_cell(value)} | {_cell(parameter.help)} |"
    yield "| `-h`, `--help` | Print the options. |"
    yield from _services_options()
    yield from _ingest_options()
    yield from _serve_options()
    yield from _migrate_options()
    yield from ("", "## Exit codes", "", "| code | meaning |", "|---|---|")
    for code, meaning in EXIT_CODES.items():
        yield f"| {code} | {meaning} |"
    yield from _EXIT_TEXT.splitlines()
    yield from ("", "## Forms of results", "", "| `--format` | |", "|---|---|")
    for name, meaning in OUTPUT_FORMATS.items():
        yield f"| `{name}` | {_cell(meaning)} |"
    yield from _FORMS_TEXT.splitlines()
    yield from ("", "## In the shell and in scripts", "", "```", *HELP.splitlines(), "```")
    yield from _SCRIPTS_TEXT.splitlines()


_EXIT_TEXT = """
The first statement that fails ends the run, unless `--force` is given; then the exit code is the gravest
of all (130, then 1, then 3). A failed script of `-i` always ends the run. `fail_on_error => false` makes
a check (`CALL verify_bootstrap`, a dry run of `bootstrap_table` or `rollback_bootstrap`) a statement
that succeeds whatever it finds; its rows are the same. A job of a CI system:

```sh
hudisql --format jsonl -e "CALL verify_bootstrap(table => 'lake.orders', level => 'full')" > findings.jsonl
case $? in 0) ;; 1) echo "the table differs from its source" ;; *) echo "see the error above" ;; esac
```"""

_FORMS_TEXT = """
Results go to standard output, all else to standard error. Nothing is rounded or cut off. Decimals,
dates, timestamps and intervals are texts in JSON; `NaN` and infinities are texts, too. Timestamps are
shown in the session's time zone. Binary values are hexadecimal digits (`00FF`) in every form, inside arrays,
maps and structs too: `unhex()` reads them. In JSON a map is an object whose keys are texts. Statements go on
when the reader of the results leaves (`hudisql -f load.sql | head`)."""

_SCRIPTS_TEXT = """
Scripts are UTF-8. Statements end with `;`; a `BEGIN … END` block is one statement. `${name}` is a
variable (`--hivevar`), `${env:NAME}` one of the environment, `${hiveconf:name}` a setting. `quit;`
(`exit;`) ends its script; the exit code is that of the statements before it. Control-C ends the
statement; in the shell the session goes on. When all has run and the session closes, it ends the
process at once.

Values of options are checked before anything starts: numbers and ports by their range. A verb whose
packages are not installed names the extra (`pip install 'hudisql[ingest]'`), and what the operating
system refuses is one line with the path."""


def _services_options() -> Iterator[str]:
    """The options of `hudisql services run`."""
    services: Any = get_command(services_app)
    yield from ("", "## hudisql services run", "")
    yield "Runs the table services that are due ([one process for many tables](services/service-process.md))."
    yield from _options_of(services.commands["run"])


def _serve_options() -> Iterator[str]:
    """The options of `hudisql serve`."""
    commands: Any = get_command(app)
    yield from ("", "## hudisql serve", "")
    yield "Serves SQL by HiveServer2's protocol ([beeline, JDBC, ODBC and Python clients](serving.md))."
    yield from _options_of(commands.commands["serve"])


def _options_of(command: Any) -> Iterator[str]:
    yield from ("", "| option | meaning |", "|---|---|")
    yield from _option_rows(command)


def _ingest_options() -> Iterator[str]:
    """The options of the commands of `hudisql ingest`."""
    ingest: Any = get_command(ingest_app)
    for name, command in ingest.commands.items():
        yield from ("", f"## hudisql ingest {name}", "", f"{command.help} See [ingest.md](ingest.md).")
        yield from ("", "| option | meaning |", "|---|---|", *_option_rows(command))


def _migrate_options() -> Iterator[str]:
    """The verbs and options of `hudisql migrate` and `hudisql run`, and the options of `hudisql check`."""
    migrate: Any = get_command(migrate_app)
    yield from ("", "## hudisql migrate", "", "[Migrations](migrations.md) has a tutorial and the rules.")
    for verb, command in migrate.commands.items():
        yield from ("", f"`hudisql [options] migrate {verb} DIR`: {command.help}")
        yield from ("", "| option | meaning |", "|---|---|", *_option_rows(command))
    layers: Any = get_command(layers_app)
    yield from (
        "",
        "## hudisql run",
        "",
        "[Layers of a warehouse](warehouse.md) has a tutorial and the rules.",
    )
    for verb, command in layers.commands.items():
        yield from ("", f"`hudisql [options] run {verb} DIR`: {command.help}")
        yield from ("", "| option | meaning |", "|---|---|", *_option_rows(command))
    everything: Any = get_command(app)
    check = everything.commands["check"]
    yield from ("", "## hudisql check", "", f"`hudisql [options] check FILES|DIR`: {check.help}", "")
    yield from ("| option | meaning |", "|---|---|", *_option_rows(check))


def _option_rows(command: Any) -> Iterator[str]:
    for option in command.params:
        if option.param_type_name == "argument":
            continue
        names, shown = ", ".join(f"`{name}`" for name in option.opts), ""
        if not option.is_flag:
            shown = f" {option.metavar}"
        yield f"| {names}{_cell(shown)} | {_cell(option.help)} |"


def _python_page() -> Iterator[str]:
    yield "# Python API"
    yield ""
    yield "Made by `make docs` from signatures and docstrings. `import hudisql` alone loads no Spark."
    for value in (connect, install, write_table):
        yield from ("", f"## hudisql.{value.__name__}", "", *_described(f"hudisql.{value.__name__}", value))
    for owner in (Session, Result, WriteResult):
        yield from ("", f"## {owner.__name__}", "", *_paragraphs(owner))
        for name, member in vars(owner).items():
            is_shown = inspect.isfunction(member) or isinstance(member, property | cached_property)
            if is_shown and not name.startswith("_") and name not in _INTERNAL:
                yield from ("", f"### {name}", "", *_described(f"{owner.__name__}.{name}", member))
    yield from ("", "## Errors", "")
    yield "All are in `hudisql.errors`. `message` says what and where, `hint` what to do."
    yield from ("", "| error | is a | when |", "|---|---|---|")
    for error in vars(errors).values():
        if inspect.isclass(error) and issubclass(error, HudisqlError):
            bases = ", ".join(f"`{base.__name__}`" for base in error.__bases__)
            yield f"| `{error.__name__}` | {bases} | {_cell(' '.join(_paragraphs(error)))} |"
    yield from _PYTHON_TEXT.splitlines()


# For the command line's own use.
_INTERNAL: Final = frozenset({"guard", "execute", "substitute", "isolated"})


def _described(title: str, value: Any) -> Iterator[str]:
    if isinstance(value, property | cached_property):
        function: Any = value.fget if isinstance(value, property) else value.func
        text = f"{title}: {inspect.signature(function).return_annotation}"
    else:
        function, signature = value, inspect.signature(value)
        shown = [each for name, each in signature.parameters.items() if name != "self"]
        # Annotations are texts here, and are shown in quotes.
        text = title + re.sub(_QUOTED, r"\1", str(signature.replace(parameters=shown)))
    yield from ("```python", text, "```", "", *_paragraphs(function))


_QUOTED: Final = re.compile(r"(?<=[:>] )'([^']*)'")


def _paragraphs(value: Any) -> list[str]:
    return (inspect.getdoc(value) or "").splitlines()


_PYTHON_TEXT = """
## Data source

With hudisql installed, `spark.read.format("hudi")` and `df.write.format("hudi")` work on plain PySpark 4, by
path ([readers](readers.md), [writes](changing-rows.md#dataframes)). Options of reads:

| option | meaning |
|---|---|
| `path` | the table's directory, or a partition path below it |
| `hoodie.datasource.query.type` | `snapshot` (default), `read_optimized`, [`incremental`](history.md) |
| `as.of.instant` | the table as it stood at an instant time, date or timestamp |
| `fs.*`, `dfs.*` | settings of the file system, as Hadoop has them |"""

_PAGES: Final[Mapping[str, Callable[[], Iterator[str]]]] = {
    "procedures.md": _procedures_page,
    "types.md": _types_page,
    "settings.md": _settings_page,
    "command-line.md": _command_line_page,
    "python-api.md": _python_page,
}


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
