"""Write the reference pages that the code itself declares: docs/procedures.md and docs/types.md.

`--check` writes nothing and fails if a page is not what the declarations say.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from hudisql.bootstrap.type_safety import CODEC_HAZARDS, TYPE_HAZARDS
from hudisql.procedures.registry import Procedure, load_procedures
from hudisql.sql import executor  # noqa: F401 (declares procedures that change rows)


def main() -> int:
    """Write the pages, or say which are out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    stale = []
    for name, lines in {"procedures.md": _procedures_page(), "types.md": _types_page()}.items():
        page, target = "\n".join(lines) + "\n", options.folder / name
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
    yield "Arguments are positional or `name => value`; names know no case; a `system.` prefix is accepted."
    for procedure in load_procedures().values():
        yield from _section(procedure)


def _section(procedure: Procedure) -> Iterator[str]:
    yield from ("", f"## {procedure.name}", "", procedure.summary, "")
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
    yield "# Types in source files that some reader or writer breaks on"
    yield ""
    yield "Made by `make docs` from `hudisql/bootstrap/type_safety.py`. A metadata-only bootstrap leaves the"
    yield "source's physical types as they are, so these can only be mended by writing the partition anew."
    yield "hudisql itself reads all but the refused ones right."
    yield "`dry_run => true` names the columns and the files before anything is written."
    yield ""
    yield "- **refused**: no partition with such a file can stay as it is."
    yield "- **unsafe**: rows or queries of somebody break. `on_unsafe_type => 'fail'` (the default) stops,"
    yield "  `'warn'` goes on, `'full_record'` writes just the partitions of these files anew."
    yield "- **told**: a warning, whatever `on_unsafe_type` says."
    yield ""
    yield "| stored as | who breaks | bootstrap | mended by full_record | way out |"
    yield "|---|---|---|---|---|"
    for hazard in TYPE_HAZARDS.values():
        verdict = "refused" if hazard.is_blocker else "unsafe" if hazard.is_unsafe else "told"
        breaks, hint = _cell("; ".join(hazard.breaks)), _cell(hazard.hint or "")
        mended = "yes" if hazard.full_record_mends else ""
        yield f"| {_cell(hazard.stored)} | {breaks} | {verdict} | {mended} | {hint} |"
    yield ""
    yield "| compression of the data pages | who breaks |"
    yield "|---|---|"
    for codec, text in CODEC_HAZARDS.items():
        yield f"| {codec} | {_cell(text)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
