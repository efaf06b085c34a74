"""The directory of built files is deleted only if it holds nothing else."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[1] / "scripts" / "try_wheel.py"))


def test_a_directory_with_other_files_is_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = SCRIPT["build"]
    monkeypatch.setitem(build.__globals__, "run", lambda *_: (tmp_path / "new.whl").parent.mkdir())
    for name in ("a.whl", "a.tar.gz", ".gitignore", "notes.txt"):
        (tmp_path / name).touch()
    with pytest.raises(SystemExit, match=r"holds notes\.txt: choose another"):
        build(tmp_path)
    assert (tmp_path / "a.whl").exists()
    (tmp_path / "notes.txt").unlink()
    with pytest.raises(ValueError, match="not enough values"):
        build(tmp_path)
    assert not list(tmp_path.iterdir())
