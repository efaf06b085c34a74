"""Pushes by HTTP: a real server, real connections."""

from __future__ import annotations

import gzip
import http.client
import json
import logging
import socket
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.errors import InvalidArgumentError
from hudisql.ingest.push.gateway import PushGateway
from hudisql.ingest.push.http_server import HttpPushServer
from hudisql.ingest.push.push_limits import PushLimits
from hudisql.ingest.push.write_ahead_log import WriteAheadLog
from tests.certificates import make_certificate
from tests.ingest.push.log_frames import all_frames
from tests.ingest.push.servers import (
    FORGIVING,
    OTHER_TOKEN,
    TOKEN,
    HttpClient,
    http_server,
    make_gateway,
)

ROWS = b'{"id": 1, "name": "a"}\n{"id": 2}\n'


@pytest.fixture
def client(log: WriteAheadLog) -> Iterator[HttpClient]:
    with http_server(make_gateway(log), metrics=lambda: ("text/plain", b"pushes 1\n")) as client:
        yield client


def zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


def test_rows_are_in_the_log_when_they_are_acknowledged(client: HttpClient, log: WriteAheadLog) -> None:
    large = b'{"id": 7, "name": "' + b"x" * 100_000 + b'"}'
    bodies = [
        (ROWS, ""),
        (gzip.compress(ROWS), "gzip"),
        (gzip.compress(ROWS[:24]) + gzip.compress(ROWS[24:]), "gzip"),
        (zstd(ROWS), "zstd"),
        (large, ""),
        (iter([ROWS[:10], ROWS[10:]]), ""),
    ]
    for body, encoding in bodies:
        answer = client.push(body, **({"Content_Encoding": encoding} if encoding else {}))
        assert answer.status == 200, answer.text
        sequence = answer.json["sequence"]
        (frame,) = log.read("lake.trips", sequence - 1, 1)
        assert (frame.sequence, frame.header.rows) == (sequence, answer.json["rows"])
        assert frame.payload == (large if body is large else ROWS)


def test_clients_at_once_get_each_a_number_of_their_own(client: HttpClient, log: WriteAheadLog) -> None:
    def push(number: int) -> tuple[int, int]:
        answer = client.push(b'{"id": %d}' % number)
        return answer.json["sequence"], number

    with ThreadPoolExecutor(16) as pool:
        given = dict(pool.map(push, range(200)))
    assert {frame.sequence: json.loads(frame.payload)["id"] for frame in all_frames(log)} == given
    assert len(given) == 200


@pytest.mark.parametrize(
    ("authorization", "table", "status", "code"),
    [
        (None, "lake.trips", 401, "unauthenticated"),
        ("Basic abc", "lake.trips", 401, "unauthenticated"),
        ("Bearer ", "lake.trips", 401, "unauthenticated"),
        ("Bearer guess", "lake.trips", 401, "unauthenticated"),
        ("Bearer guess", "lake.unknown", 401, "unauthenticated"),
        (f"Bearer {OTHER_TOKEN}", "lake.trips", 403, "forbidden"),
        (f"bearer {TOKEN}", "lake.trips", 200, ""),
    ],
)
def test_a_token_opens_its_own_table_only(
    client: HttpClient, authorization: str | None, table: str, status: int, code: str
) -> None:
    headers = {"Authorization": authorization} if authorization else {}
    answer = client.send("POST", f"/v1/tables/{table}/rows", ROWS, headers)
    assert answer.status == status
    if code:
        assert answer.error["code"] == code
        assert (answer.headers.get("www-authenticate") == "Bearer") == (status == 401)
        assert "guess" not in answer.text


@pytest.mark.parametrize(
    ("body", "lines", "reason"),
    [
        (b'{"id": 1}\n{"id": "x"}\n', [2], "column id: a value of another type than int64"),
        (b'{"id": 1}\n\n{"id": 2, "other": 1}\n{"id": 3', [3, 4], "no column other"),
        (b'{"id": 1}\n{"name": "a"}', [2], "key"),
        (b'{"id": 1}\n{"id": null}', [2], "key"),
        (b'{"id": 1}{"id": 2}\n', [1], "not JSON"),
        (b'{"id": 1,\n"name": "a"}\n', [1, 2], "not JSON"),
        (b'{"id": 1}\n[2]\n', [2], "no JSON object"),
        (b'{"id": 1, "name": "\xff"}\n', [1], ""),
        (b'{"id": 1.5}\n' * 50, list(range(1, 21)), "int64"),
    ],
)
def test_bad_rows_are_named_by_their_lines_and_none_is_taken(
    client: HttpClient, log: WriteAheadLog, body: bytes, lines: list[int], reason: str
) -> None:
    answer = client.push(body)
    assert answer.status == 400
    assert answer.error["code"] == "bad_rows"
    assert [each["line"] for each in answer.error["lines"]] == lines
    assert reason in answer.error["lines"][0]["reason"]
    assert log.tables() == {}


def test_bad_rows_are_taken_for_the_dead_letter_table_if_configured(log: WriteAheadLog) -> None:
    body = b'{"id": 1}\n{"id": "x"}\n'
    with http_server(make_gateway(log, tables=FORGIVING)) as client:
        answer = client.push(body)
    assert answer.status == 200
    assert answer.json["rows"] == 2
    assert [each["line"] for each in answer.json["bad_lines"]] == [2]
    assert [frame.payload for frame in all_frames(log)] == [body]


@pytest.mark.parametrize(
    ("body", "encoding", "status", "code"),
    [
        (b"", "", 400, "no_rows"),
        (b"\n \n", "", 400, "no_rows"),
        (b"not gzip", "gzip", 400, "bad_compression"),
        (gzip.compress(ROWS, mtime=0)[:-10], "gzip", 400, "bad_compression"),
        (zstd(ROWS)[:-4], "zstd", 400, "bad_compression"),
        (b"not zstd", "zstd", 400, "bad_compression"),
        (ROWS, "br", 415, "bad_encoding"),
    ],
    ids=["empty", "blank", "no-gzip", "cut-gzip", "cut-zstd", "no-zstd", "unknown-encoding"],
)
def test_bodies_that_are_none_are_refused(
    client: HttpClient, log: WriteAheadLog, body: bytes, encoding: str, status: int, code: str
) -> None:
    answer = client.push(body, **({"Content_Encoding": encoding} if encoding else {}))
    assert (answer.status, answer.error["code"]) == (status, code)
    assert log.tables() == {}


def test_other_paths_and_methods_are_refused(client: HttpClient) -> None:
    assert client.push(ROWS, table="lake.unknown").error["code"] == "unknown_table"
    assert client.send("GET", "/v1/tables/lake.trips").status == 404
    answer = client.send("GET", "/v1/tables/lake.trips/rows")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert client.send("POST", "/health", b"").status == 405
    assert client.send("GET", "/metrics").text == "pushes 1\n"


def test_health_needs_no_token_and_names_the_log(client: HttpClient, log: WriteAheadLog) -> None:
    answer = client.send("GET", "/health")
    assert answer.status == 200
    assert answer.json == {
        "status": "ok",
        "log_id": log.log_id,
        "log_is_failing": False,
        "log_bytes": 0,
        "unflushed_bytes": 0,
    }


def test_a_repeated_idempotency_key_gives_the_first_number_also_after_a_restart(tmp_path: Path) -> None:
    def push_twice() -> list[int]:
        log = WriteAheadLog(tmp_path)
        with http_server(make_gateway(log)) as client:
            answers = [client.push(ROWS, Idempotency_Key="k1") for _ in range(2)]
            other = client.push(b'{"id": 3}', Idempotency_Key="k1")
            elsewhere = client.push(ROWS, "lake.riders", OTHER_TOKEN, Idempotency_Key="k1")
            too_long = client.push(ROWS, Idempotency_Key="k" * 300)
        assert (other.status, other.error["code"]) == (422, "key_reused")
        assert (too_long.status, too_long.error["code"]) == (400, "bad_key")
        assert len(all_frames(log)) == 2
        log.close()
        return [answer.json["sequence"] for answer in (*answers, elsewhere)]

    first = push_twice()
    assert first[0] == first[1] != first[2]
    assert push_twice() == first


def test_keys_are_forgotten_in_time(log: WriteAheadLog) -> None:
    with http_server(make_gateway(log, key_seconds=-1)) as client:
        numbers = {client.push(ROWS, Idempotency_Key="k").json["sequence"] for _ in range(3)}
    assert len(numbers) == 3


def limited(log: WriteAheadLog, **limits: Any) -> PushGateway:
    return make_gateway(log, PushLimits(**{"retry_seconds": 7, **limits}))


def test_bodies_beyond_the_limits_are_refused_before_they_are_read_or_unpacked(log: WriteAheadLog) -> None:
    with http_server(limited(log, body_bytes=1000, rows=20)) as client:
        for body, headers in (
            (ROWS * 100, {}),
            (iter([ROWS] * 100), {}),
            (gzip.compress(bytes(50_000_000)), {"Content_Encoding": "gzip"}),
            (zstd(bytes(50_000_000)), {"Content_Encoding": "zstd"}),
        ):
            answer = client.push(body, **headers)
            assert (answer.status, answer.error["code"]) == (413, "body_too_large")
        assert client.push(b'{"id": 1}\n' * 21).error["code"] == "too_many_rows"
        # A body of 10 GB is refused by its header.
        with socket.create_connection(("127.0.0.1", client.port), 10) as connection:
            connection.sendall(
                b"POST /v1/tables/lake.trips/rows HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000\r\n"
                b"Authorization: Bearer " + TOKEN.encode() + b"\r\n\r\n"
            )
            assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
        assert client.push(ROWS).status == 200


def test_pushes_wait_while_tables_are_behind(log: WriteAheadLog) -> None:
    with http_server(
        limited(log, body_bytes=3000, unflushed_table_bytes=4000, unflushed_bytes=6000)
    ) as client:
        row = b'{"id": 1, "name": "%s"}' % (b"x" * 1800)
        accepted = [client.push(row) for _ in range(2)]
        refused = client.push(row)
        assert [answer.status for answer in accepted] == [200, 200]
        assert (refused.status, refused.error["code"]) == (429, "table_log_full")
        assert refused.headers["retry-after"] == "7"
        assert client.push(row, "lake.riders", OTHER_TOKEN).status == 200
        assert client.push(row, "lake.riders", OTHER_TOKEN).error["code"] == "log_full"
        log.release("lake.trips", accepted[-1].json["sequence"])
        assert client.push(row).status == 200


def test_pushes_wait_while_a_table_that_is_behind_keeps_segments_on_disk(tmp_path: Path) -> None:
    log = WriteAheadLog(tmp_path, segment_bytes=4096)
    with http_server(limited(log, log_bytes=10_000)) as client:
        last = client.push(ROWS, "lake.riders", OTHER_TOKEN).json["sequence"]
        row = b'{"id": 1, "name": "%s"}' % (b"x" * 2000)
        log.release("lake.trips", client.push(row).json["sequence"])
        numbers = [client.push(row).json["sequence"] for _ in range(3)]
        assert log.disk_bytes > 10_000
        assert client.push(row).error["code"] == "log_full"
        log.release("lake.trips", numbers[-1])
        log.release("lake.riders", last)
        assert client.push(row).status == 200
    log.close()


def begin_push(port: int, length: int = 10) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 10)
    connection.sendall(
        b"POST /v1/tables/lake.trips/rows HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n"
        b"Authorization: Bearer %s\r\n\r\n" % (length, TOKEN.encode())
    )
    return connection


def test_too_many_requests_at_once_and_slow_bodies_are_refused(log: WriteAheadLog) -> None:
    gateway = limited(log, concurrent_requests=2, body_seconds=1.0)
    with http_server(gateway) as client, begin_push(client.port) as one, begin_push(client.port) as two:
        while gateway._admission._requests < 2:
            pass
        answer = client.push(ROWS)
        assert (answer.status, answer.error["code"]) == (429, "too_many_requests")
        for slow in (one, two):
            assert slow.recv(100).startswith(b"HTTP/1.1 408 ")
        assert client.push(ROWS).status == 200
        # A client that goes away leaves nothing behind.
        begin_push(client.port).close()
        assert client.push(ROWS).status == 200
    assert gateway._admission._requests == 0
    assert gateway._admission._bytes == 0


def test_a_server_that_shuts_down_refuses_new_pushes_and_completes_running_ones(log: WriteAheadLog) -> None:
    gateway = make_gateway(log)
    with http_server(gateway) as client:
        running = begin_push(client.port, len(ROWS))
        while gateway._admission._requests < 1:
            pass
        gateway.stop()
        answer = client.push(ROWS)
        assert (answer.status, answer.error["code"]) == (503, "shutting_down")
        assert answer.headers["retry-after"]
        assert client.send("GET", "/health").status == 503
        threading.Timer(0.2, lambda: running.sendall(ROWS)).start()
    with running:
        assert running.recv(1000).startswith(b"HTTP/1.1 200 ")
    assert len(all_frames(log)) == 1


def test_a_failing_log_is_not_acknowledged(log: WriteAheadLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with http_server(make_gateway(log)) as client:
        with monkeypatch.context() as patch:
            patch.setattr(log._files, "write", fail)
            answer = client.push(ROWS, Idempotency_Key="k")
            assert (answer.status, answer.error["code"]) == (503, "log_failed")
            assert "retry-after" in answer.headers
            assert client.send("GET", "/health").json["log_is_failing"]
        assert client.push(ROWS, Idempotency_Key="k").status == 200
        assert not client.send("GET", "/health").json["log_is_failing"]
    assert len(all_frames(log)) == 1


def test_an_unexpected_failure_tells_clients_nothing_and_the_log_file_no_token(
    log: WriteAheadLog, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: str) -> Any:
        raise KeyError("a secret of the server")

    gateway = make_gateway(log)
    gateway._find_check = fail
    with caplog.at_level(logging.DEBUG), http_server(gateway) as client:
        answer = client.push(ROWS)
        assert client.push(ROWS, token="guess").status == 401
    assert (answer.status, answer.error["code"]) == (500, "internal_error")
    assert "secret" not in answer.text
    assert "a secret of the server" in caplog.text
    assert TOKEN not in caplog.text
    assert "guess" not in caplog.text
    assert gateway.counters.answers == {500: 1, 401: 1}


def test_rows_by_tls(log: WriteAheadLog, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    with http_server(make_gateway(log), certificate=certificate, key=key) as client:
        request = urllib.request.Request(
            f"https://127.0.0.1:{client.port}/v1/tables/lake.trips/rows",
            ROWS,
            {"Authorization": f"Bearer {TOKEN}"},
        )
        trusting = ssl.create_default_context(cafile=str(certificate))
        with urllib.request.urlopen(request, context=trusting, timeout=30) as answer:
            assert json.load(answer)["rows"] == 2
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            client.push(ROWS)


def test_servers_that_would_show_tokens_or_cannot_listen_are_refused(
    log: WriteAheadLog, tmp_path: Path
) -> None:
    gateway = make_gateway(log)
    with pytest.raises(InvalidArgumentError, match="as plain text"):
        HttpPushServer(gateway, host="0.0.0.0")
    HttpPushServer(gateway, host="0.0.0.0", allow_plain_text=True)
    with pytest.raises(InvalidArgumentError, match="both a certificate and its key"):
        HttpPushServer(gateway, certificate=tmp_path / "c.pem")
    with pytest.raises(InvalidArgumentError, match="does not exist"):
        HttpPushServer(gateway, certificate=tmp_path / "c.pem", key=tmp_path / "k.pem")
    with http_server(gateway) as client, pytest.raises(InvalidArgumentError, match="cannot listen"):
        HttpPushServer(gateway, port=client.port).start()
