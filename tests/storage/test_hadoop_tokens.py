"""Hadoop's token files: numbers of any length, tokens by address and by name, files of other layouts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.storage.hadoop_tokens import _encoded, _number, _read, _Token, _write, find_token_by_name

BY_ADDRESS = _Token(b"alias", b"i" * 200, b"p", b"HDFS_DELEGATION_TOKEN", b"127.0.0.1:8020")
OF_YARN = _Token(b"", b"i", b"p", b"YARN_AM_RM_TOKEN", b"127.0.0.1:8020")


@given(st.integers(0, 1 << 31))
def test_numbers_are_read_as_they_are_written(number: int) -> None:
    encoded = _encoded(number)
    assert _number(b"x" + encoded + b"y", 1) == (number, 1 + len(encoded))


@pytest.fixture
def token_file(monkeypatch: pytest.MonkeyPatch) -> Path:
    path = Path(_write([OF_YARN, BY_ADDRESS], b"\x00"))
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(path))
    return path


def test_a_name_gets_the_token_of_its_address_once(token_file: Path) -> None:
    find_token_by_name("127.0.0.1:8020")
    find_token_by_name("localhost:9000")
    find_token_by_name("name-service")
    assert os.environ["HADOOP_TOKEN_FILE_LOCATION"] == str(token_file)
    find_token_by_name("localhost:8020")
    copied = Path(os.environ["HADOOP_TOKEN_FILE_LOCATION"])
    tokens, rest = _read(copied.read_bytes())
    assert [(token.kind, token.service) for token in tokens] == [
        (b"YARN_AM_RM_TOKEN", b"127.0.0.1:8020"),
        (b"HDFS_DELEGATION_TOKEN", b"127.0.0.1:8020"),
        (b"HDFS_DELEGATION_TOKEN", b"localhost:8020"),
    ]
    assert rest == b"\x00"
    find_token_by_name("localhost:8020")
    assert os.environ["HADOOP_TOKEN_FILE_LOCATION"] == str(copied)
    copied.unlink()
    token_file.unlink()


def test_no_copy_outlives_the_process(token_file: Path) -> None:
    program = (
        "import os; from hudisql.storage.hadoop_tokens import find_token_by_name\n"
        "find_token_by_name('localhost:8020'); path = os.environ['HADOOP_TOKEN_FILE_LOCATION']\n"
        "print(path, oct(os.stat(path).st_mode & 0o777))\n"
        "if os.fork() == 0: raise SystemExit\n"
        "os.wait(); assert os.path.exists(path)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    copied, mode = done.stdout.split()[:2]
    assert copied != str(token_file)
    assert mode == "0o600"
    assert not Path(copied).exists()
    token_file.unlink()


@pytest.mark.parametrize("content", [b"", b"HDTS\x01protobuf", b"HDTS\x00\x05cut short", b"HDTS\x00\x88"])
def test_other_layouts_are_left_alone(token_file: Path, content: bytes) -> None:
    token_file.write_bytes(content)
    find_token_by_name("localhost:8020")
    assert os.environ["HADOOP_TOKEN_FILE_LOCATION"] == str(token_file)
    token_file.unlink()
    find_token_by_name("localhost:8020")
