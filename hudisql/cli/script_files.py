"""Reading the text of scripts: files and standard input, always UTF-8."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Final

from hudisql.errors import SettingsError

# Editors on Windows write a byte order mark at the start.
_ENCODING: Final = "utf-8-sig"


def read_script(path: Path) -> str:
    """The text of a script file. Raises SettingsError if it cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding=_ENCODING)
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8 text: {error}") from error


def read_standard_input() -> str:
    """The script on standard input. Raises SettingsError if it is not UTF-8."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        # UTF-8 as for files, not the locale's encoding, so that a script means the same either way.
        sys.stdin.reconfigure(encoding=_ENCODING, errors="strict")
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise SettingsError(f"standard input is not UTF-8 text: {error}") from error
