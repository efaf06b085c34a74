from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

from hudisql import java_runtime
from hudisql.errors import SettingsError


def fake_java(directory: Path, version_line: str) -> Path:
    launcher = directory / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n")
    launcher.chmod(0o755)
    return launcher


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("no java here", None),
    ],
)
def test_versions_of_old_and_new_javas_are_understood(tmp_path: Path, line: str, version: int | None) -> None:
    assert java_runtime.java_version(fake_java(tmp_path, line)) == version
    assert java_runtime.java_version(tmp_path / "absent") is None


def test_an_old_java_is_passed_over_and_its_absence_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "old", 'java version "1.8.0_392"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    java_runtime.find_java_home.cache_clear()
    try:
        with pytest.raises(SettingsError, match=r"hudisql\[java\]"):
            java_runtime.find_java_home()
    finally:
        java_runtime.find_java_home.cache_clear()


def test_the_packaged_runtime_is_started_without_the_module_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path / "java-runtime"
    launcher = runtime / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text('#!/bin/sh\nfor each do echo "[$each]"; done\n')
    launcher.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = java_runtime._home_behind_launcher(runtime)
    asked = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "Main"]
    answer = subprocess.run([str(home / "bin" / "java"), *asked], capture_output=True, text=True, check=True)
    assert answer.stdout.split("\n")[:3] == ["[-cp]", "[a b:c]", "[Main]"]
    assert os.access(home / "bin" / "java", os.X_OK)
