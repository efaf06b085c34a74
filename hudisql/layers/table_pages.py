"""`hudisql run docs`: static pages of a project, one for each table that it writes or reads.

A page has the table's columns and comments, its tests and its query; `lineage_picture` draws its lineage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import StorageError
from hudisql.format.schema.meta_columns import is_meta_column
from hudisql.layers.lineage import Lineage
from hudisql.layers.model_files import Model
from hudisql.layers.project import Project
from hudisql.sql.ddl.create_table import COMMENT
from hudisql.sql.incremental_tables.definition import definition_of

if TYPE_CHECKING:
    from hudisql.context import Context

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
table { border-collapse: collapse }
th, td { text-align: left; padding: .2rem 1rem .2rem 0; vertical-align: top }
th { border-bottom: 1px solid #999 } code, pre { font-family: ui-monospace, monospace; font-size: 13px }
pre { background: #f5f5f5; padding: .8rem; overflow-x: auto } a { color: #0550ae } svg { max-width: 100% }
"""
_LETTER: Final = 7.5
_HEIGHT: Final = 26
_GAP: Final = 14
_BETWEEN: Final = 50


def write_pages(context: Context, project: Project, directory: Path) -> list[Path]:
    """Write `index.html` and the tables' pages; returns their paths. Raises StorageError, MetastoreError."""
    names = [*project.lineage.order]
    sources = sorted({read for model in project.models.values() for read in model.reads} - set(names))
    tables = {name: context.metastore.get_table(*name.split(".")) for name in (*sources, *names)}
    pages = {"index.html": _index(project, sources, tables)}
    for name, entry in tables.items():
        pages[page_name(name)] = _table_page(project, name, entry)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for file, text in pages.items():
            (directory / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write the pages to {directory}: {error.strerror}") from error
    return [directory / file for file in pages]


def page_name(table: str) -> str:
    """The file of a table's page."""
    return f"{table}.html"


def _index(project: Project, sources: Sequence[str], tables: dict[str, MetastoreTable | None]) -> str:
    def listed(names: Sequence[str]) -> Iterator[str]:
        yield "<table><tr><th>table</th><th>comment</th></tr>"
        for name in names:
            yield f"<tr><td>{_link(name)}</td><td>{escape(_comment(tables[name]))}</td></tr>"
        yield "</table>"

    order = project.lineage.order
    return _page(
        "Tables",
        [
            lineage_picture(project.lineage, None, page_name),
            "<h2>Models</h2>",
            *listed(order),
            "<h2>Sources</h2>",
            *listed(sources),
        ],
    )


def _table_page(project: Project, name: str, entry: MetastoreTable | None) -> str:
    model = project.models.get(name)
    parts = [f"<p>{escape(_comment(entry))}</p>", '<p><a href="index.html">All tables</a></p>']
    parts += ["<h2>Lineage</h2>", lineage_picture(project.lineage, name, page_name), "<h2>Columns</h2>"]
    parts += list(_columns(entry))
    parts += list(_tests(project, name))
    if model is not None:
        parts += _definition(model, entry)
    return _page(name, parts)


def _columns(entry: MetastoreTable | None) -> Iterator[str]:
    if entry is None:
        yield "<p>The table does not exist yet.</p>"
        return
    yield "<table><tr><th>column</th><th>type</th><th>comment</th></tr>"
    for each in (*entry.columns, *entry.partition_columns):
        if not is_meta_column(each.name):
            cells = (f"<code>{escape(each.name)}</code>", escape(each.type), escape(each.comment or ""))
            yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    yield "</table>"
    if entry.partition_columns:
        names = ", ".join(column.name for column in entry.partition_columns)
        yield f"<p>Partitioned by {escape(names)}.</p>"


def _tests(project: Project, name: str) -> Iterator[str]:
    tests = [test for test in project.tests.values() if name in test.reads]
    if tests:
        yield "<h2>Tests</h2><ul>"
        yield from (f"<li><code>{escape(test.name)}</code></li>" for test in tests)
        yield "</ul>"


def _definition(model: Model, entry: MetastoreTable | None) -> list[str]:
    stored = None if entry is None else definition_of(entry)
    names = escape(", ".join(model.definition.key if stored is None else stored.key))
    key = f"<p>Key: <code>{names}</code></p>" if names else ""
    return ["<h2>Query</h2>", f"<p>{escape(model.file.name)}</p>", key, f"<pre>{escape(model.query)}</pre>"]


def _comment(entry: MetastoreTable | None) -> str:
    return "" if entry is None else entry.parameters.get(COMMENT, "")


def _link(name: str) -> str:
    return f'<a href="{escape(page_name(name))}">{escape(name)}</a>'


def _page(title: str, parts: Sequence[str]) -> str:
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    body = "\n".join(part for part in parts if part)
    return (
        f"<!doctype html><html><head>{head}</head><body>\n<h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def lineage_picture(lineage: Lineage, table: str | None, page_of: Callable[[str], str]) -> str:
    """An `<svg>` of the dependencies and dependents of one table, sources too; None: of all tables."""
    shown = _shown(lineage, table)
    edges = [(one, two) for two in sorted(shown) for one in lineage.reads.get(two, ()) if one in shown]
    columns: dict[int, list[str]] = {}
    depths = _depths(lineage, shown)
    for name in sorted(shown, key=lambda each: (depths[each], each)):
        columns.setdefault(depths[name], []).append(name)
    boxes: dict[str, tuple[float, float, float]] = {}
    left = 0.0
    for _, names in sorted(columns.items()):
        width = max(map(len, names)) * _LETTER + 16
        boxes |= {name: (left, at * (_HEIGHT + _GAP), width) for at, name in enumerate(names)}
        left += width + _BETWEEN
    height = max(map(len, columns.values())) * (_HEIGHT + _GAP)
    lines = [_line(boxes[one], boxes[two]) for one, two in edges]
    drawn = [_box(name, boxes[name], page_of(name), is_table=name == table) for name in boxes]
    size = f'width="{left - _BETWEEN + 2:.0f}" height="{height}"'
    view = f'viewBox="-1 -1 {left - _BETWEEN + 2:.0f} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view}>{"".join([*lines, *drawn])}</svg>'


def _shown(lineage: Lineage, table: str | None) -> set[str]:
    if table is None:
        return set(lineage.reads) | {each for names in lineage.reads.values() for each in names}
    models = {table} | lineage.above([table])
    below = ({table} | lineage.below(table)) if table in lineage.reads else {table}
    return models | below | {read for name in below & set(lineage.reads) for read in lineage.reads[name]}


def _depths(lineage: Lineage, shown: set[str]) -> dict[str, int]:
    depths = dict.fromkeys(shown, 0)
    for name in lineage.order:
        if name in shown:
            depths[name] = max((depths[read] + 1 for read in lineage.reads[name] if read in shown), default=0)
    return depths


def _line(one: tuple[float, float, float], two: tuple[float, float, float]) -> str:
    start, end = one[0] + one[2], two[0]
    high, low = one[1] + _HEIGHT / 2, two[1] + _HEIGHT / 2
    middle = (start + end) / 2
    path = f"M{start:.0f} {high:.0f}C{middle:.0f} {high:.0f} {middle:.0f} {low:.0f} {end:.0f} {low:.0f}"
    return f'<path d="{path}" fill="none" stroke="#888"/>'


def _box(name: str, box: tuple[float, float, float], page: str, *, is_table: bool) -> str:
    left, top, width = box
    fill = "#ddf4ff" if is_table else "#fff"
    return (
        f'<a href="{escape(page)}"><rect x="{left:.0f}" y="{top}" width="{width:.0f}" height="{_HEIGHT}" '
        f'rx="4" fill="{fill}" stroke="#555"/><text x="{left + 8:.0f}" y="{top + 17}" '
        f'font-family="monospace" font-size="12">{escape(name)}</text></a>'
    )
