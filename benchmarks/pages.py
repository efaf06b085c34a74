"""Pages that several benchmarks write: each has a part with its own title and leaves the others alone."""

from __future__ import annotations

from pathlib import Path


def replace_part(page: Path, title: str, text: str) -> None:
    """Put `text`, which begins with the title, in place of the page's part with it, or behind the others."""
    parts = ["# " + part for part in ("\n" + page.read_text()).split("\n# ")[1:]] if page.exists() else []
    at = next((number for number, part in enumerate(parts) if part.startswith(f"# {title}\n")), len(parts))
    parts[at : at + 1] = [text]
    page.write_text("\n\n".join(part.strip("\n") for part in parts) + "\n")
