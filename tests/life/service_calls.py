"""Calls of table services, `{t}` being the table."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as some

from tests.life.model import nothing


def compaction(op: str) -> str:
    return (
        f"CALL run_compaction(op => '{op}', table => '{{t}}', "
        "options => 'hoodie.compact.inline.max.delta.commits=1')"
    )


def clustering(op: str, order: bool) -> str:
    ordered = ", order => 'price,id'" if order else ""
    return f"CALL run_clustering(op => '{op}', table => '{{t}}'{ordered})"


def cleaning(retained: int) -> str:
    return f"CALL run_clean(table => '{{t}}', retain_commits => {retained})"


def cleaning_by_versions(versions: int) -> str:
    return (
        "CALL run_clean(table => '{t}', clean_policy => 'KEEP_LATEST_FILE_VERSIONS', "
        f"file_versions_retained => {versions})"
    )


def archiving(least: int, retained: int) -> str:
    return (
        f"CALL archive_commits(table => '{{t}}', min_commits => {least}, max_commits => {least + 1}, "
        f"retain_commits => {retained})"
    )


def service_calls(*, is_mor: bool) -> Any:
    """A strategy of services that do something on most tables, as statements that change no row."""
    calls = [cleaning(1), cleaning_by_versions(1), archiving(2, 1), clustering("scheduleAndExecute", False)]
    if is_mor:
        calls.append(compaction("scheduleandexecute"))
    return some.sampled_from([(call, nothing) for call in calls])
