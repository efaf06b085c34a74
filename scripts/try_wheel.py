"""Build sdist and wheel, install the wheel in a virtual environment of its own, and run the demo with it.

The demo runs in a temporary directory, so that a module or data file which the wheel lacks is an error and
is not found in the checkout.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent


def main() -> None:
    """Leave `<dist>/hudisql-….tar.gz` and `.whl`. Exit code 1 if a step fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dist", type=Path, help="the directory of the built files")
    parser.add_argument("source", type=Path, help="the demo's source, which sql/make_demo_data.py wrote")
    options = parser.parse_args()
    wheel = build(options.dist)
    with tempfile.TemporaryDirectory() as scratch:
        environment = Path(scratch) / "venv"
        install(wheel, environment)
        run_demo(environment, Path(scratch), options.source.resolve())
    print(f"{wheel} runs the demo without the checkout", file=sys.stderr)


def build(dist: Path) -> Path:
    """Build the sdist, and the wheel from it; return the wheel. Exit if `dist` holds other files."""
    others = [path.name for path in dist.glob("*") if not _is_built(path)]
    if others:
        sys.exit(f"{dist} would be deleted, and holds {', '.join(sorted(others))}: choose another directory")
    shutil.rmtree(dist, ignore_errors=True)
    run([BIN / "uv", "build", "--quiet", "--out-dir", dist, ROOT])
    (wheel,) = dist.glob("*.whl")
    return wheel.resolve()


def _is_built(path: Path) -> bool:
    return path.is_file() and (path.name == ".gitignore" or path.name.endswith((".whl", ".tar.gz")))


def install(wheel: Path, environment: Path) -> None:
    """Install the wheel with its default dependencies only, in the locked versions."""
    run([BIN / "uv", "venv", "--quiet", "--python", sys.executable, environment])
    lock = ROOT / "requirements.lock"
    target = ["--python", environment / "bin" / "python", "--constraint", lock]
    run([BIN / "uv", "pip", "install", "--quiet", *target, wheel])


def run_demo(environment: Path, directory: Path, source: Path) -> None:
    """Run sql/demo.sql by the installed command, in a directory without the checkout's modules."""
    script = shutil.copy(ROOT / "sql" / "demo.sql", directory)
    options = ["--warehouse", directory / "warehouse", "--hivevar", f"source={source}", "-f", script]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables["PATH"] = f"{environment / 'bin'}{os.pathsep}{variables['PATH']}"
    run([environment / "bin" / "hudisql", *options], directory, variables)


def run(command: list[str | Path], cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    """Run a command, and end with its exit code if it fails."""
    code = subprocess.run([str(word) for word in command], cwd=cwd, env=env, check=False).returncode
    if code:
        sys.exit(f"{' '.join(str(word) for word in command)} ended with exit code {code}")


if __name__ == "__main__":
    main()
