"""The parts of the scale page about metadata tables: what is compared with what."""

from __future__ import annotations

from pathlib import Path

from benchmarks import metadata_bootstrap, metadata_commits, old_metadata_reads
from benchmarks.metadata_bootstrap import VARIANTS, Source
from benchmarks.metadata_commits import Commit
from benchmarks.old_metadata_reads import QUERIES


def test_an_index_is_compared_with_the_bootstrap_without_it() -> None:
    seconds = dict(zip((variant.name for variant in VARIANTS), (10.0, 11.0, 12.0, 16.0), strict=True))
    source = Source("events", Path("events"), "id", "at", 12_000_000)
    page = metadata_bootstrap.render([(source, seconds)], 3, 2)
    assert "| 6 | none | 10.00 |  |  |  |" in page
    assert "`partition_stats` | 12.00 | 2.00 | 0.20 |  |" in page
    assert "`record_index` | 16.00 | 4.00 | 0.33 | 3.0 |" in page
    assert "is 25% of its bootstrap (goal: at most 15%): **missed**" in page
    assert "3.0 million keys a second and core (goal: at least 2): met" in page


def test_a_compaction_counts_for_the_commits_before_it() -> None:
    commits = [
        Commit(0.01, None, 0.03, 20, 29),
        Commit(0.01, None, 0.04, 47, 30),
        Commit(0.31, 0.3, 0.03, 19, 2),
        Commit(0.03, None, 0.03, 20, 3),
    ]
    page = metadata_commits.render({9: commits}, 10_000, 500, 2)
    assert "| 9 | 10 | 1 | 300 | 90 |" in page
    assert "| 9 | before a compaction | 30 | 40 | 47 |" in page
    assert "| 9 | after it | 2 | 30 | 19 |" in page


def test_the_page_tells_which_queries_profit() -> None:
    seconds = dict(zip(QUERIES, ((10.0, 9.5), (1.0, 1.1), (10.0, 2.0), (1.0, 3.0)), strict=True))
    page = old_metadata_reads.render(seconds, 10_000, 500, 2)
    assert "profits by a metadata table in 1 of 4 queries (SELECT with a filter on a column)" in page
    assert "pays for it in 1 (SELECT with a filter on a column, in one partition)" in page
