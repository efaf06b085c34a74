"""The lineage of tables as an SVG: left of a table its dependencies, right of it its dependents."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Final

from hudisql.layers.lineage import Lineage

_LETTER: Final = 7.5
_HEIGHT: Final = 26
_GAP: Final = 14
_BETWEEN: Final = 50


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
