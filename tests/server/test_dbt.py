"""dbt-spark's thrift method on Hudi tables: seeds, models of each kind, snapshots, tests, documentation."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hudisql.server.thrift_server import ThriftServer
from scripts.setup_oracles import install_dbt

pytestmark = [pytest.mark.spark, pytest.mark.hms, pytest.mark.oracle]
PAGE = Path(__file__).parents[2] / "docs/serving.md"
PROJECT = {
    "dbt_project.yml": """
name: shop
version: '1.0'
profile: shop
seeds: {+file_format: hudi}
models: {+file_format: hudi}
snapshots: {+file_format: hudi}
data_tests: {+store_failures: true, +file_format: hudi}
""",
    "seeds/countries.csv": "code,name,population\nNL,Netherlands,17\nBE,Belgium,11\nDE,Germany,83\n",
    "models/copied.sql": """
{{ config(materialized='table', unique_key=['code', 'name'], options={'preCombineField': 'population'}) }}
select code, name, population from {{ ref('countries') }}
""",
    "models/merged.sql": """
{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['code', 'name'],
    on_schema_change='append_new_columns') }}
select code, name, population + {{ var('more') }} as population
    {% if var('more') %}, 'new' as state {% endif %}
from {{ ref('countries') }}
""",
    "models/appended.sql": """
{{ config(materialized='incremental', incremental_strategy='append') }}
select code, {{ var('more') }} as more from {{ ref('countries') }}
""",
    "models/overwritten.sql": """
{{ config(materialized='incremental', incremental_strategy='insert_overwrite', partition_by=['code'],
    unique_key='name') }}
select name, population + {{ var('more') }} as population, code from {{ ref('countries') }}
{% if is_incremental() %} where code = 'NL' {% endif %}
""",
    "models/events.sql": """
{{ config(materialized='table', event_time='at') }}
select id, timestamp'2024-01-01 10:00:00' + make_dt_interval(cast(id % 2 as int)) as at from range(4)
""",
    "models/daily.sql": """
{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='at', batch_size='day',
    begin='2024-01-01', partition_by=['day'], unique_key='id') }}
select id, at, date(at) as day from {{ ref('events') }}
""",
    "models/shown.sql": "{{ config(materialized='view') }}\nselect * from {{ ref('merged') }}\n",
    "models/schema.yml": """
models:
  - name: copied
    columns:
      - name: code
        data_tests: [unique, not_null, {accepted_values: {arguments: {values: [NL, BE]}}}]
""",
    "snapshots/history.sql": """
{% snapshot history %}
{{ config(unique_key='code', strategy='check', check_cols=['population']) }}
select code, population + {{ var('more') }} as population from {{ ref('countries') }}
{% endsnapshot %}
""",
}
ONE_BUILD = ("--event-time-start", "2024-01-01", "--event-time-end", "2024-01-03")


def code_block(language: str, line: str) -> str:
    """The code block of docs/serving.md in `language` that has `line`."""
    blocks = PAGE.read_text().split("```")[1::2]
    [block] = [text for text in blocks if text.startswith(f"{language}\n") and line in text]
    return block.removeprefix(f"{language}\n")


def dbt(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(install_dbt().parent / "dbt"), "--no-use-colors", *arguments, "--profiles-dir", "."]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=400, check=False)


def build(directory: Path, more: int) -> None:
    """Run `dbt build`, of which one test fails: a country is none of its accepted values."""
    done = dbt(directory, "build", "--vars", f"{{more: {more}}}", *ONE_BUILD)
    assert "PASS=11 WARN=0 ERROR=1 SKIP=0" in done.stdout, done.stdout[-6000:] + done.stderr[-2000:]
    assert "FAIL 1 accepted_values_copied_code__NL__BE" in done.stdout


@pytest.fixture
def project(server: ThriftServer, session: Any, tmp_path: Path) -> Iterator[Path]:
    """The directory of PROJECT, with the profile and the macro of the documentation."""
    profile = code_block("yaml", "method: thrift").replace("10000", str(server.port))
    files = PROJECT | {
        "profiles.yml": profile,
        "macros/options_clause.sql": code_block("jinja", "macro spark__options_clause"),
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    yield tmp_path
    session.sql("USE default")
    session.sql("DROP VIEW IF EXISTS analytics.shown")
    for database in ("analytics", "analytics_dbt_test__audit"):
        for row in session.sql(f"SHOW TABLES IN {database}").rows:
            session.sql(f"DROP TABLE {database}.{row[1]}")
        session.sql(f"DROP DATABASE {database}")


@pytest.mark.soak
def test_a_project_is_built_twice_and_all_its_tables_hold_what_dbt_means(session: Any, project: Path) -> None:
    build(project, 0)
    build(project, 5)

    def rows(query: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in session.sql(query).rows)

    countries = [("BE", 11), ("DE", 83), ("NL", 17)]
    assert rows("SELECT code, population FROM analytics.copied") == countries
    assert rows("SELECT code, population, state FROM analytics.shown") == [
        (code, population + 5, "new") for code, population in countries
    ]
    assert rows("SELECT code, more FROM analytics.appended") == sorted(
        (code, more) for code, _ in countries for more in (0, 5)
    )
    assert rows("SELECT code, population FROM analytics.overwritten") == [("BE", 11), ("DE", 83), ("NL", 22)]
    assert rows("SELECT id, string(day) FROM analytics.daily") == [
        (number, f"2024-01-0{number % 2 + 1}") for number in range(4)
    ]
    assert rows("SELECT code, population, dbt_valid_to IS NULL FROM analytics.history") == sorted(
        (code, population + more, more == 5) for code, population in countries for more in (0, 5)
    )
    keys = "SELECT DISTINCT _hoodie_record_key FROM analytics.merged"
    assert ("code:NL,name:Netherlands",) in rows(keys)
    assert rows("SELECT value_field FROM analytics_dbt_test__audit.accepted_values_copied_code__NL__BE") == [
        ("DE",)
    ]


@pytest.mark.soak
def test_a_full_refresh_and_the_documentation_are_made(session: Any, project: Path) -> None:
    build(project, 0)
    refreshed = dbt(project, "run", "--full-refresh", "--vars", "{more: 9}", *ONE_BUILD)
    assert refreshed.returncode == 0, refreshed.stdout
    assert len(session.sql("SELECT * FROM analytics.appended").rows) == 3
    documented = dbt(project, "docs", "generate", "--vars", "{more: 9}")
    assert documented.returncode == 0, documented.stdout
    assert '"_hoodie_record_key"' in (project / "target/catalog.json").read_text()
