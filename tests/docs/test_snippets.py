"""The SQL of README.md and docs/*.md runs, page by page and in the page's order, on tables that fit.

A block below a line `<!-- not run -->` is left out. `before` says what has to be there for a block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hudisql.session import Session
from hudisql.sql.query.target_table import find_hudi_entry
from hudisql.sql.text.statements import TableName
from tests.spark_versions import needs_spark

pytestmark = [pytest.mark.spark, pytest.mark.hms]

ROOT = Path(__file__).parent.parent.parent
_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>sql|python)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_NOT_RUN = "<!-- not run -->"


@dataclass(frozen=True)
class Page:
    """A page; `before` has SQL to run before the block of that number (counted from 1).

    `since` is the PySpark whose SQL it shows, where not all have it.
    """

    path: str
    before: Mapping[int, str] = field(default_factory=dict)
    languages: tuple[str, ...] = ("sql",)
    since: str = "3.5"


_TRIPS = "id BIGINT, fare DOUBLE, driver STRUCT<name: STRING>, changes INT, dt STRING"
_STAGED = "SELECT 7 id, 12.5D fare, named_struct('name', 'Ada') driver, 0 changes, '2024-03-01' dt"
_ROWS = """INSERT INTO lake.trips VALUES (1, 5.0, named_struct('name', 'Bo'), 0, '2024-03-01'),
  (4711, 6.0, NULL, 1, '2024-03-02')"""
_ORDERS = """CREATE TABLE legacy.orders (order_id BIGINT, amount DOUBLE, updated_at BIGINT, dt STRING)
  USING parquet PARTITIONED BY (dt) LOCATION '{directory}/orders';
INSERT INTO legacy.orders VALUES (1, 2.5, 1, '2024-03-01'), (2, 3.5, 2, '2024-03-02')"""
_LINES = """CREATE TABLE legacy.lineitem
  (l_orderkey BIGINT, l_linenumber INT, l_quantity DOUBLE, l_receiptdate DATE)
  USING parquet LOCATION '{directory}/lineitem';
INSERT INTO legacy.lineitem VALUES (1, 1, 2.0, DATE'2024-03-01'), (1, 2, 3.0, DATE'2024-03-01')"""
_CORRECTIONS = """CREATE TEMPORARY VIEW corrections AS
SELECT 1L l_orderkey, 2 l_linenumber, 9.0D l_quantity, false is_cancelled"""
_CHANGED = f"""CREATE TABLE lake.trips ({_TRIPS}) USING hudi PARTITIONED BY (dt)
  TBLPROPERTIES (primaryKey = 'id', 'hoodie.clean.automatic' = 'false');
{_ROWS}; UPDATE lake.trips SET fare = 1; UPDATE lake.trips SET fare = 2; UPDATE lake.trips SET fare = 3"""
_EVENTS = f"""CREATE TABLE lake.events ({_TRIPS}) USING hudi PARTITIONED BY (dt)
  TBLPROPERTIES (primaryKey = 'id', type = 'mor', 'hoodie.compact.inline.max.delta.commits' = '1');
{_ROWS.replace("trips", "events")}; DELETE FROM lake.events WHERE id = 1"""
_PLAIN = """CREATE TABLE lake.t (id BIGINT, fare DOUBLE) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO lake.t VALUES (1, 5.0)"""

# Their statements take longest, and stand in other tests, too.
IN_SOAK = (
    *("a-year-in-the-life-of-a-table", "archive", "clean", "history", "migrate-table", "resync"),
    *("rollback-and-restore", "service-process", "tutorial", "warehouse", "changing-rows", "tables"),
)
PAGES = (
    Page(
        "README.md",
        {
            1: _LINES,
            2: f"""CALL bootstrap_table(table => 'lake.lineitem', source_table => 'legacy.lineitem',
              record_key => 'l_orderkey,l_linenumber', precombine => 'l_receiptdate'); {_CORRECTIONS}""",
        },
    ),
    Page("docs/tutorial.md"),
    Page("docs/benchmarks-layers.md", {}),
    Page("docs/ingest.md", {}),
    Page("docs/ingest-push.md", {}),
    Page(
        "docs/changing-rows.md",
        {
            2: f"""{_ROWS};
            CREATE TEMPORARY VIEW erasure_requests AS SELECT 4711L id;
            CREATE TABLE staging.trips USING parquet AS
              SELECT *, '2024-03-01' day, false cancelled FROM ({_STAGED});
            CREATE TABLE staging.new_trips USING parquet AS {_STAGED};
            CREATE TABLE staging.corrected USING parquet AS {_STAGED}""",
        },
    ),
    Page(
        "docs/tables.md",
        {
            4: """INSERT INTO lake.trips (id, dt) VALUES (1, DATE'2024-03-01'), (2, DATE'2024-03-02'),
              (3, DATE'2024-03-03'), (4, DATE'2024-03-04')""",
        },
    ),
    Page(
        "docs/migrating.md",
        {
            1: _ORDERS,
            2: "CREATE TABLE legacy.events_orc USING orc AS SELECT 1L id",
            3: """CALL bootstrap_table(table => 'lake.orders', source_table => 'legacy.orders',
              record_key => 'order_id', precombine => 'updated_at')""",
        },
    ),
    Page("docs/migrate-table.md", {1: _ORDERS}),
    Page(
        "docs/readers.md",
        {
            1: """CREATE TABLE lake.t (id BIGINT) USING hudi TBLPROPERTIES (primaryKey = 'id');
            INSERT INTO lake.t VALUES (1)"""
        },
    ),
    Page(
        "docs/services/resync.md",
        {
            1: f"""{_ORDERS};
            CALL bootstrap_table(table => 'lake.orders', source_table => 'legacy.orders',
              record_key => 'order_id');
            INSERT INTO legacy.orders SELECT 900L, 4.5D, 3L, '2024-03-01'"""
        },
    ),
    Page("docs/iceberg.md", {1: _PLAIN}),
    Page("docs/warehouse.md"),
    Page("docs/functions.md"),
    Page("docs/upgrading.md"),
    Page("docs/services/archive.md", {1: _CHANGED}),
    Page("docs/services/clean.md", {1: _CHANGED}),
    Page("docs/services/compaction.md", {1: _EVENTS}),
    Page("docs/services/inspect-and-repair.md", {1: _EVENTS}),
    Page("docs/services/service-process.md", {1: _EVENTS}),
    Page(
        "docs/a-year-in-the-life-of-a-table.md",
        {
            1: _ORDERS,
            2: """CREATE TABLE staging.orders USING parquet AS SELECT 2L order_id, 4.5D amount, 3L updated_at,
              '2024-03-02' dt, false cancelled""",
        },
    ),
    Page(
        "docs/history.md",
        {
            1: """CREATE TABLE legacy.trips USING parquet PARTITIONED BY (dt) LOCATION '{directory}/trips'
              AS SELECT 1L id, 5.0D fare, '2024-03-01' dt;
            CALL bootstrap_table(table => 'lake.trips', source_table => 'legacy.trips', record_key => 'id');
            UPDATE lake.trips SET fare = 6.0 WHERE id = 1""",
        },
        languages=("sql", "python"),
        since="4.0",
    ),
    Page(
        "docs/querying.md",
        {
            1: f"""CREATE TABLE lake.trips ({_TRIPS}) USING hudi PARTITIONED BY (dt)
              TBLPROPERTIES (primaryKey = 'id'); {_ROWS}"""
        },
        languages=("sql", "python"),
        since="4.1",
    ),
    Page(
        "docs/services/clustering.md",
        {
            1: f"""CREATE TABLE lake.trips ({_TRIPS}) USING hudi PARTITIONED BY (dt)
              TBLPROPERTIES (primaryKey = 'id'); {_ROWS}"""
        },
    ),
    Page(
        "docs/services/rollback-and-restore.md",
        {
            1: f"""CREATE TABLE lake.trips ({_TRIPS}) USING hudi PARTITIONED BY (dt)
              TBLPROPERTIES (primaryKey = 'id'); {_ROWS}"""
        },
    ),
)  # fmt: skip


def databases_of(session: Session) -> set[str]:
    """The names of all databases."""
    return {row[0] for row in session.sql("SHOW DATABASES").rows}


def _settings_of(session: Session) -> dict[str, str]:
    """Hudi's settings of the session: a page's SET must not reach later tests."""
    return {row.key: row.value for row in session.sql("SET").rows if row.key.startswith("hoodie.")}


@pytest.fixture
def databases(session: Session, tmp_path: Path) -> Iterator[Session]:
    """The databases of the pages, empty before; they go with those that a page makes."""
    others, settings = databases_of(session), _settings_of(session)
    for name in ("lake", "legacy", "staging"):
        session.sql(f"CREATE DATABASE {name} LOCATION '{tmp_path}/{name}.db'")
    yield session
    for name, value in _settings_of(session).items():
        if name not in settings:
            session.sql(f"RESET {name}")
        elif value != settings[name]:
            session.sql(f"SET {name}={settings[name]}")
    for name in databases_of(session) - others:
        for row in session.sql(f"SHOW TABLES IN {name}").rows:
            if row.namespace:
                session.sql(f"DROP TABLE IF EXISTS {name}.{row.tableName}")
        session.sql(f"DROP DATABASE {name} CASCADE")
    for view in ("erasure_requests", "corrections"):
        session.spark.catalog.dropTempView(view)


def blocks_of(page: Page) -> list[tuple[str, str]]:
    """Language and text of the page's blocks that are run."""
    text = (ROOT / page.path).read_text()
    return [
        (found["language"], found["text"])
        for found in _BLOCK.finditer(text)
        if found["language"] in page.languages and not text[: found.start()].rstrip().endswith(_NOT_RUN)
    ]


def run(session: Session, text: str, directory: Path) -> list[list[Any]]:
    """The rows of each statement; what a check finds wrong is an error, too."""
    text = text.replace("s3a://lake", f"{directory}/s3").replace("{directory}", str(directory))
    results = []
    for result in session.run_script(text):
        results.append(result.rows if result.has_rows else [])
    return results


def path_of_trips(session: Session) -> str:
    """Where `lake.trips` lies."""
    entry = find_hudi_entry(session.context, TableName(("lake", "trips")))
    assert entry is not None
    assert entry.location is not None
    return entry.location


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=Path(page.path).stem,
            marks=(
                needs_spark(page.since, "what the page shows"),
                *((pytest.mark.soak,) if Path(page.path).stem in IN_SOAK else ()),
            ),
        )
        for page in PAGES
    ],
)
def test_the_sql_of_a_page_runs(databases: Session, tmp_path: Path, page: Page) -> None:
    blocks = blocks_of(page)
    assert len(blocks) >= max(page.before, default=0)
    for number, (language, text) in enumerate(blocks, start=1):
        run(databases, page.before.get(number, ""), tmp_path)
        if language == "python":
            text = text.replace("s3a://lake", f"{tmp_path}/s3")
            exec(text, {"session": databases, "spark": databases.spark, "path": path_of_trips(databases)})
            continue
        results = run(databases, text, tmp_path)
        if "EXCEPT" in text:
            assert results == [[]]


@needs_spark("4.0", "the data source")
def test_the_quick_start_of_the_readme_runs(session: Session, tmp_path: Path) -> None:
    blocks = [block["text"] for block in _BLOCK.finditer((ROOT / "README.md").read_text())]
    (text,) = [block for block in blocks if 'df.write.format("hudi")' in block]
    trips = [
        (1695159649087, "334e26e9", "rider-A", 19.1, "san_francisco"),
        (1695091554788, "e96c4396", "rider-C", 27.7, "san_francisco"),
        (1695046462179, "9909a8b1", "rider-D", 33.9, "san_francisco"),
        (1695516137016, "e3cf430c", "rider-F", 34.15, "sao_paulo"),
    ]
    df = session.spark.createDataFrame(
        trips, "ts BIGINT, uuid STRING, rider STRING, fare DOUBLE, city STRING"
    )
    exec(text.replace("/data/trips", f"{tmp_path}/trips"), {"df": df, "spark": session.spark})
    rows = session.spark.read.format("hudi").load(f"{tmp_path}/trips").select("rider", "fare").collect()
    assert sorted(map(tuple, rows)) == [
        ("rider-A", 19.1),
        ("rider-C", 27.7),
        ("rider-D", 339.0),
        ("rider-F", 34.15),
    ]


def test_every_page_with_sql_is_run() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    with_sql = {str(path.relative_to(ROOT)) for path in pages if "```sql" in path.read_text()}
    assert with_sql == {page.path for page in PAGES}


def test_links_between_pages_lead_somewhere() -> None:
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+\.md)", path.read_text()):
            assert target.startswith("http") or (path.parent / target).exists(), f"{path}: {target}"
