"""Refuse words that readers from the field do not understand (part of `make lint`).

Each pattern stands beside the word to use instead; docs/glossary.md explains those. CHANGELOG.md and this
file are left out.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SUFFIXES: Final = (".py", ".md", ".sql", ".toml", ".properties")
LEFT_OUT: Final = ("CHANGELOG.md", "scripts/check_words.py")

WORDS: Final = {
    r"(?<!archivelog\.)\bfolders?\b|Folder|(?<!local)_folder": "directory",
    r"\breal (Hudi|Hive)\b(?! Metastore)": "Apache Hudi, Apache Hive",
    r"\bsigns? of life\b|signs_of_life": "heartbeat",
    r"\bwritten anew\b|\bwrites? anew\b": "rewritten",
    r"\bwholly or not at all\b": "atomically",
    r"\b(put|puts) in(to)? the shade\b": "replaced",
    r"\btak(e|en|es|ing) (\w+ )?back\b|\btook (\w+ )?back\b|take_back|taken_back": "deleted, rolled back",
    r"\bin the way\b|in_the_way": "conflict, blocked_reason",
    r"\bovertak\w*|\bundisturbed\b": "conflict",
    r"\bleftovers?\b": "stale files, uncommitted files",
    r"\bjournal(ed)?\b": "checkpoint",
    r"\bsomebody\b|\bbreaks? on\b": "readers that are incompatible with it",
    r"\bspares?\b|\bspared\b|\bsparing\b": "prune",
    r"\blitter\b|\bthe voice\b": "a plain word",
    r"\bstrikes?\b|\bstruck\b|\bvictims?\b": "crash, kill, target",
    r"\bhazards?\b": "incompatibility",
    r"\bHeld(Source|Changes|Claim)\b|\bhold_source\b|\bheld_source\b": "cached source, change buffer, lease",
    r"\btag_rows\b|\bhas_composite_keys\b|\bcomposite keys?\b": "tag_locations, complex key",
    r"\bslice_merge\b|\bslice_log\b|\bnew_files\b": "merge handle, append handle, create handle",
    r"\bodd_(input|sources)\b": "edge_cases",
}
WORDS_OF_PRODUCT: Final = {
    r"(?<![tT]here )\bis no (?!longer\b|more\b)[a-z]+": "is not a …",
    r"\btold\b": "reported, distinguished, known",
    r"\b(un)?mend(s|ed|ing)?\b": "correct, repair",
    r"\banew\b": "again",
    r"\bnone that\b": "a plain negation",
}
"""Refused in the package and its docs; tests and benchmarks are left out."""
TESTING: Final = ("tests", "benchmarks")


def refused_words(path: Path) -> list[str]:
    """`file:line: 'word': use …` for each refused word in a file."""
    name = path.relative_to(ROOT)
    words = WORDS if name.parts[0] in TESTING else {**WORDS, **WORDS_OF_PRODUCT}
    return [
        f"{name}:{number}: '{match.group()}': use {use}"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        for word, use in words.items()
        for match in re.finditer(word, line)
    ]


def main() -> int:
    """Print what is found; 1 if anything is."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    paths = [ROOT / name for name in listed.split("\0") if name.endswith(SUFFIXES) and name not in LEFT_OUT]
    found = [each for path in paths if path.is_file() for each in refused_words(path)]
    print("\n".join(found) or "no refused words")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
