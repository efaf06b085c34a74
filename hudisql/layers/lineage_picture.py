"""Draws the lineage of a project's tables as SVG; the page's style has the colours."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Final

from hudisql.layers.lineage import Lineage

PICTURE_STYLE: Final = """
svg .table { fill: var(--page); stroke: var(--faint) }
svg .chosen { fill: var(--chosen); stroke: var(--link) }
svg .edge { fill: none; stroke: var(--faint) }
svg .arrow { fill: var(--faint) }
svg text { fill: var(--text); font: 12px ui-monospace, monospace }
"""
_LETTER: Final = 7.5
_HEIGHT: Final = 26
_GAP: Final = 14
_BETWEEN: Final = 50
_ARROW: Final = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto"><polygon class="arrow" points="0,0 8,4 0,8"/></marker></defs>'
)
_Box = tuple[float, float, float]
"""Left, top and width."""


def lineage_picture(lineage: Lineage, table: str | None, page_of: Callable[[str], str]) -> str:
    """An `<svg>` of the dependencies and dependents of one table, sources too; None: of all tables."""
    shown = _shown(lineage, table)
    edges = [(one, two) for two in sorted(shown) for one in lineage.reads.get(two, ()) if one in shown]
    columns: dict[int, list[str]] = {}
    depths = _depths(lineage, shown)
    for name in sorted(shown, key=lambda model: (depths[model], model)):
        columns.setdefault(depths[name], []).append(name)
    boxes: dict[str, _Box] = {}
    left = 0.0
    for _, names in sorted(columns.items()):
        width = max(map(len, names)) * _LETTER + 16
        boxes |= {name: (left, at * (_HEIGHT + _GAP), width) for at, name in enumerate(names)}
        left += width + _BETWEEN
    height = max(map(len, columns.values())) * (_HEIGHT + _GAP)
    lines = [_line(boxes[one], boxes[two]) for one, two in edges]
    drawn = [_box(name, boxes[name], page_of(name), is_chosen=name == table) for name in boxes]
    size = f'width="{left - _BETWEEN + 2:.0f}" height="{height}"'
    view = f'viewBox="-1 -1 {left - _BETWEEN + 2:.0f} {height}"'
    content = "".join([_ARROW, *lines, *drawn])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="Lineage" {size} {view}>'
        f"{content}</svg>"
    )


def _shown(lineage: Lineage, table: str | None) -> set[str]:
    if table is None:
        return set(lineage.reads) | {name for names in lineage.reads.values() for name in names}
    models = {table} | lineage.above([table])
    below = ({table} | lineage.below(table)) if table in lineage.reads else {table}
    return models | below | {read for name in below & set(lineage.reads) for read in lineage.reads[name]}


def _depths(lineage: Lineage, shown: set[str]) -> dict[str, int]:
    depths = dict.fromkeys(shown, 0)
    for name in lineage.order:
        if name in shown:
            depths[name] = max((depths[read] + 1 for read in lineage.reads[name] if read in shown), default=0)
    return depths


def _line(one: _Box, two: _Box) -> str:
    start, end = one[0] + one[2], two[0]
    high, low = one[1] + _HEIGHT / 2, two[1] + _HEIGHT / 2
    middle = (start + end) / 2
    path = f"M{start:.0f} {high:.0f}C{middle:.0f} {high:.0f} {middle:.0f} {low:.0f} {end:.0f} {low:.0f}"
    return f'<path class="edge" d="{path}" marker-end="url(#arrow)"/>'


def _box(name: str, box: _Box, page: str, *, is_chosen: bool) -> str:
    left, top, width = box
    return (
        f'<a href="{escape(page)}"><rect class="{"chosen" if is_chosen else "table"}" x="{left:.0f}" '
        f'y="{top}" width="{width:.0f}" height="{_HEIGHT}" rx="4"/>'
        f'<text x="{left + 8:.0f}" y="{top + 17}">{escape(name)}</text></a>'
    )
