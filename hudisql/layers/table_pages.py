"""`hudisql run docs`: static pages of a project, one for each table that it writes or reads.

A page has the table's lineage, columns and comments, its last refresh, its tests with their results, and its
query. Pages need nothing but themselves, have light and dark colours, and fit a phone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hudisql.catalog.metastore_table import MetastoreTable, is_hudi_table
from hudisql.errors import StorageError
from hudisql.format.schema.meta_columns import is_meta_column
from hudisql.layers.lineage_picture import PICTURE_STYLE, lineage_picture
from hudisql.layers.model_files import Model
from hudisql.layers.passed_tests import PassedTests
from hudisql.layers.project import Project
from hudisql.layers.refresh_results import DataTestState, LastRefresh, last_refresh, state_of_test
from hudisql.sql.ddl.create_table import COMMENT
from hudisql.sql.incremental_tables.definition import definition_of

if TYPE_CHECKING:
    from hudisql.context import Context

_STYLE: Final = """
:root { color-scheme: light dark; --page: #fff; --text: #1f2328; --faint: #59636e; --line: #d1d9e0;
  --code: #f6f8fa; --link: #0550ae; --chosen: #ddf4ff; --good: #1a7f37; --open: #9a6700 }
@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --text: #e6edf3; --faint: #9198a1;
  --line: #3d444d; --code: #161b22; --link: #79b8ff; --chosen: #12314f; --good: #3fb950; --open: #d29922 } }
body { background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif;
  margin: 1.5rem auto; max-width: 64rem; padding: 0 1rem }
h1 { font-size: 1.6rem; margin: .5rem 0; overflow-wrap: anywhere } h2 { font-size: 1.15rem; margin-top: 2rem }
a { color: var(--link) } .faint { color: var(--faint) }
.good { color: var(--good) } .open { color: var(--open) }
time { white-space: nowrap } .wide { overflow-x: auto } table { border-collapse: collapse; width: 100% }
th, td { border-bottom: 1px solid var(--line); padding: .35rem 1rem .35rem 0; text-align: left;
  vertical-align: top } th { color: var(--faint); font-weight: 600 }
code, pre { background: var(--code); border-radius: 4px; font: 13px/1.5 ui-monospace, monospace }
code { padding: .1em .3em; overflow-wrap: anywhere }
pre { overflow-wrap: anywhere; padding: .8rem; white-space: pre-wrap }
"""


@dataclass(frozen=True)
class _Page:
    """What the page of one table shows: its entry, last refresh, and the state of the tests that read it."""

    name: str
    entry: MetastoreTable | None
    model: Model | None
    refresh: LastRefresh | None
    tests: Mapping[str, DataTestState]

    @property
    def comment(self) -> str:
        """The table's comment."""
        return "" if self.entry is None else self.entry.parameters.get(COMMENT, "")


def write_pages(context: Context, project: Project, directory: Path) -> list[Path]:
    """Write `index.html` and the tables' pages; returns their paths.

    Raises StorageError, MetastoreError, CorruptTableError.
    """
    pages = {page.name: page for page in _pages(context, project)}
    texts = {"index.html": _index(project, pages)}
    texts |= {page_name(name): _table_page(project, page) for name, page in pages.items()}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            (directory / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write the pages to {directory}: {error.strerror}") from error
    return [directory / file for file in texts]


def _pages(context: Context, project: Project) -> Iterator[_Page]:
    """The pages of the sources, and of the models in their order."""
    models = project.lineage.order
    sources = sorted({read for model in project.models.values() for read in model.reads} - set(models))
    tables = {name: context.metastore.get_table(*name.split(".")) for name in (*sources, *models)}
    passed = PassedTests(context, project)
    states = {name: state_of_test(passed, test, tables) for name, test in project.tests.items()}
    for name, entry in tables.items():
        model = project.models.get(name)
        is_refreshed = model is not None and entry is not None and is_hudi_table(entry)
        refresh = last_refresh(context, entry) if is_refreshed and entry is not None else None
        own = {test.name: states[test.name] for test in project.tests.values() if name in test.reads}
        yield _Page(name, entry, model, refresh, own)


def page_name(table: str) -> str:
    """The file of a table's page."""
    return f"{table}.html"


def _index(project: Project, pages: Mapping[str, _Page]) -> str:
    models = [pages[name] for name in project.lineage.order]
    sources = [page for page in pages.values() if page.model is None]
    rows = [(_named(page), _refreshed(page), _passed(page)) for page in models]
    return _html(
        "Tables",
        [
            _wide(lineage_picture(project.lineage, None, page_name)),
            "<h2>Models</h2>",
            _table(("table", "last refresh", "tests"), rows),
            "<h2>Sources</h2>",
            _table(("table",), [(_named(page),) for page in sources]),
        ],
    )


def _named(page: _Page) -> str:
    """A link to the table's page, with its comment below."""
    link = f'<a href="{escape(page_name(page.name))}">{escape(page.name)}</a>'
    return link + (f"<br>{_faint(escape(page.comment))}" if page.comment else "")


def _refreshed(page: _Page) -> str:
    if page.refresh is not None:
        date, time = page.refresh.moment.split()
        return f"<time>{date}</time> <time>{time}</time>"
    return _faint("not yet" if page.entry is None else "archived")


def _passed(page: _Page) -> str:
    passed = sum(state is DataTestState.PASSED for state in page.tests.values())
    if not page.tests:
        return _faint("none")
    style = "good" if passed == len(page.tests) else "open"
    return f'<span class="{style}">{passed} of {len(page.tests)} passed</span>'


def _table_page(project: Project, page: _Page) -> str:
    kind = "A source: a table that the project reads." if page.model is None else ""
    parts = [
        '<p><a href="index.html">All tables</a></p>',
        f"<p>{escape(page.comment)}</p>" if page.comment else "",
        f"<p>{_faint(kind)}</p>" if kind else "",
        "<h2>Lineage</h2>",
        _wide(lineage_picture(project.lineage, page.name, page_name)),
        *_refresh(page),
        *_tests(page),
        "<h2>Columns</h2>",
        *_columns(page.entry),
    ]
    if page.model is not None:
        parts += _definition(page.model, page.entry)
    return _html(page.name, parts)


def _refresh(page: _Page) -> Iterator[str]:
    if page.model is None:
        return
    yield "<h2>Last refresh</h2>"
    refresh = page.refresh
    if refresh is None:
        yield f"<p>{_refreshed(page)}</p>"
        return
    counts = f"{refresh.inserted:,} inserted, {refresh.updated:,} updated, {refresh.deleted:,} deleted"
    yield f"<p>{refresh.moment}: {counts} {_faint(f'(commit {refresh.instant_time})')}</p>"


def _tests(page: _Page) -> Iterator[str]:
    if page.tests:
        yield "<h2>Tests</h2>"
        yield _table(
            ("test", "result"),
            [
                (
                    f"<code>{escape(name)}</code>",
                    f'<span class="{"good" if state is DataTestState.PASSED else "open"}">'
                    f"{escape(state.value)}</span>",
                )
                for name, state in page.tests.items()
            ],
        )


def _columns(entry: MetastoreTable | None) -> Iterator[str]:
    if entry is None:
        yield "<p>The table does not exist yet.</p>"
        return
    yield _table(
        ("column", "type", "comment"),
        [
            (f"<code>{escape(column.name)}</code>", escape(column.type), escape(column.comment or ""))
            for column in (*entry.columns, *entry.partition_columns)
            if not is_meta_column(column.name)
        ],
    )
    if entry.partition_columns:
        names = ", ".join(column.name for column in entry.partition_columns)
        yield f"<p>Partitioned by {escape(names)}.</p>"


def _definition(model: Model, entry: MetastoreTable | None) -> list[str]:
    stored = None if entry is None else definition_of(entry)
    names = escape(", ".join(model.definition.key if stored is None else stored.key))
    key = f"<p>Key: <code>{names}</code></p>" if names else ""
    file = f"<p>{_faint(escape(model.file.name))}</p>"
    return ["<h2>Query</h2>", file, key, f"<pre>{escape(model.query)}</pre>"]


def _faint(text: str) -> str:
    return f'<span class="faint">{text}</span>'


def _wide(content: str) -> str:
    return f'<div class="wide">{content}</div>'


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML."""
    head = "".join(f"<th>{title}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return _wide(f"<table><tr>{head}</tr>{body}</table>")


def _html(title: str, parts: Sequence[str]) -> str:
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}{PICTURE_STYLE}</style>"
    )
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html><html lang="en"><head>{head}</head><body>\n'
        f"<h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )
