"""Write docs/procedures.md from the procedures' own declarations; `--check` only compares."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from hudisql.procedures.registry import Procedure, load_procedures


def main() -> int:
    """Write the page, or say whether it is as the declarations would make it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    page = "\n".join(_page())
    if not options.check:
        options.target.write_text(page)
        return 0
    if options.target.read_text() == page:
        return 0
    print(f"{options.target} is not what the declarations say: run `make docs`", file=sys.stderr)
    return 1


def _page() -> Iterator[str]:
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
        meaning = parameter.help.replace("|", "\\|")
        yield f"| `{parameter.name}` | {parameter.type} | {default} | {meaning} |"
    columns = ", ".join(f"`{column.name}` {column.type}" for column in procedure.output)
    yield from ("", f"Output: {columns}", "")


if __name__ == "__main__":
    sys.exit(main())
