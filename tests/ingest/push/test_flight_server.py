"""Pushes by Arrow Flight: a real server and pyarrow's client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from hudisql.errors import InvalidArgumentError
from hudisql.ingest.push.flight_server import FlightPushServer
from hudisql.ingest.push.gateway import PushGateway
from hudisql.ingest.push.push_limits import PushLimits
from hudisql.ingest.push.write_ahead_log import WriteAheadLog
from tests.certificates import make_certificate
from tests.ingest.push.log_frames import all_frames
from tests.ingest.push.servers import OTHER_TOKEN, SCHEMA, TOKEN, http_server, make_gateway

BATCH = pa.record_batch({"id": [1, 2, 3], "name": ["a", None, "c"]}, schema=SCHEMA)


@pytest.fixture
def gateway(log: WriteAheadLog) -> PushGateway:
    return make_gateway(log, PushLimits(body_bytes=50_000, rows=100, unflushed_table_bytes=60_000))


@pytest.fixture
def client(gateway: PushGateway) -> Iterator[flight.FlightClient]:
    server = FlightPushServer(gateway)
    with flight.connect(f"grpc://127.0.0.1:{server.port}") as client:
        yield client
    server.stop()


def push(
    client: flight.FlightClient, batches: list[Any], table: str = "lake.trips", token: str | None = TOKEN
) -> list[dict[str, int]]:
    """Send batches, each after the last one is acknowledged. Returns the acknowledgements."""
    headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    descriptor = flight.FlightDescriptor.for_path(*table.split("/"))
    writer, reader = client.do_put(descriptor, batches[0].schema, flight.FlightCallOptions(headers=headers))
    answers = []
    with writer:
        for batch in batches:
            writer.write_batch(batch)
            answer = reader.read()
            if answer is None:
                break
            answers.append(json.loads(answer.to_pybytes()))
        writer.done_writing()
    return answers


def refused(error: flight.FlightError) -> dict[str, Any]:
    described: dict[str, Any] = json.loads(error.extra_info)["error"]
    return described


def test_each_batch_is_in_the_log_when_it_is_acknowledged(
    client: flight.FlightClient, log: WriteAheadLog
) -> None:
    answers = push(client, [BATCH, BATCH.slice(0, 2), BATCH.slice(1, 1)])
    assert [answer["rows"] for answer in answers] == [3, 2, 1]
    frames = all_frames(log)
    assert [frame.sequence for frame in frames] == [answer["sequence"] for answer in answers]
    read = [pa.ipc.open_stream(frame.payload).read_all() for frame in frames]
    assert pa.concat_tables(read).to_pylist() == [
        row for batch in (BATCH, BATCH.slice(0, 2), BATCH.slice(1, 1)) for row in batch.to_pylist()
    ]
    assert push(client, [BATCH], table="lake/trips")[0]["sequence"] > answers[-1]["sequence"]


def test_batches_are_written_alone_although_they_share_their_memory(
    client: flight.FlightClient, log: WriteAheadLog
) -> None:
    large = pa.record_batch({"id": range(4000), "name": ["x"] * 4000}, schema=SCHEMA)
    push(client, [large.slice(3990, 2)])
    assert log.unreleased_bytes < 1500


def test_tokens_and_tables_are_those_of_http(client: flight.FlightClient) -> None:
    for token in (None, "guess"):
        with pytest.raises(flight.FlightUnauthenticatedError) as unauthenticated:
            push(client, [BATCH], token=token)
        assert refused(unauthenticated.value)["code"] == "unauthenticated"
    with pytest.raises(flight.FlightUnauthorizedError) as forbidden:
        push(client, [BATCH], token=OTHER_TOKEN)
    assert refused(forbidden.value)["code"] == "forbidden"
    with pytest.raises(flight.FlightServerError) as unknown:
        push(client, [BATCH], table="lake.unknown")
    assert refused(unknown.value)["code"] == "unknown_table"
    with pytest.raises(flight.FlightServerError) as no_path:
        push(client, [BATCH], table="a/b/c")
    assert refused(no_path.value)["code"] == "bad_descriptor"


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"id": pa.array([1], pa.int32())}, "column id is int32, the table's is int64"),
        ({"id": pa.array([1]), "other": pa.array([1])}, "the table has no column other"),
    ],
)
def test_a_schema_that_is_not_the_tables_is_refused(
    client: flight.FlightClient, log: WriteAheadLog, columns: dict[str, Any], problem: str
) -> None:
    with pytest.raises(flight.FlightServerError, match=problem) as raised:
        push(client, [pa.record_batch(columns)])
    assert refused(raised.value)["code"] == "bad_schema"
    assert log.tables() == {}


def test_other_layouts_of_text_and_columns_that_may_be_null_are_taken(client: flight.FlightClient) -> None:
    texts = pa.record_batch({"name": pa.array(["a"], pa.large_string()), "id": [1]})
    assert push(client, [texts])[0]["rows"] == 1
    assert push(client, [pa.record_batch({"id": [1]})])[0]["rows"] == 1


def test_batches_that_are_not_of_the_table_end_the_stream_but_leave_those_before(
    client: flight.FlightClient, log: WriteAheadLog
) -> None:
    null_key = pa.record_batch({"id": pa.array([None], pa.int64()), "name": ["a"]})
    for bad, code in ((null_key, "bad_rows"), (null_key.slice(0, 0), "no_rows")):
        with pytest.raises(flight.FlightServerError) as raised:
            push(client, [null_key.slice(0, 0).from_pylist([{"id": 1, "name": "a"}]), bad])
        assert refused(raised.value)["code"] == code
    assert [frame.header.rows for frame in all_frames(log)] == [1, 1]


def test_limits_are_those_of_http(client: flight.FlightClient, log: WriteAheadLog) -> None:
    many = pa.record_batch({"id": range(101), "name": pa.nulls(101, pa.string())}, schema=SCHEMA)
    with pytest.raises(flight.FlightServerError) as too_many:
        push(client, [many])
    assert refused(too_many.value)["code"] == "too_many_rows"
    long = pa.record_batch({"id": [1], "name": ["x" * 60_000]}, schema=SCHEMA)
    with pytest.raises(flight.FlightServerError) as too_large:
        push(client, [long])
    assert refused(too_large.value)["code"] == "body_too_large"
    half = pa.record_batch({"id": [1], "name": ["x" * 40_000]}, schema=SCHEMA)
    sequence = push(client, [half])[0]["sequence"]
    with pytest.raises(flight.FlightUnavailableError) as busy:
        push(client, [half])
    assert refused(busy.value) == {
        "code": "table_log_full",
        "message": "the server takes no more rows now: 60000 bytes of rows for lake.trips are not yet in "
        "the table",
        "hint": "push again in 2 seconds",
        "retry_after": 2,
    }
    log.release("lake.trips", sequence)
    assert push(client, [half])


def test_health_and_a_server_that_shuts_down(client: flight.FlightClient, gateway: PushGateway) -> None:
    (health,) = client.do_action("health")
    assert json.loads(health.body.to_pybytes())["status"] == "ok"
    assert [action.type for action in client.list_actions()] == ["health"]
    with pytest.raises(flight.FlightServerError, match="unknown action x"):
        list(client.do_action("x"))
    gateway.stop()
    with pytest.raises(flight.FlightUnavailableError) as stopping:
        push(client, [BATCH])
    assert refused(stopping.value)["code"] == "shutting_down"


def test_flight_and_http_share_one_log(gateway: PushGateway, client: flight.FlightClient) -> None:
    with http_server(gateway) as by_http:
        first = by_http.push(b'{"id": 1}').json["sequence"]
        second = push(client, [BATCH])[0]["sequence"]
    assert first < second
    assert gateway.counters.answers == {200: 2}
    assert (gateway.counters.batches, gateway.counters.rows) == (2, 4)


def test_batches_by_tls(gateway: PushGateway, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    server = FlightPushServer(gateway, certificate=certificate, key=key)
    location = f"grpc+tls://localhost:{server.port}"
    with flight.connect(location, tls_root_certs=certificate.read_bytes()) as client:
        assert push(client, [BATCH])[0]["rows"] == 3
    server.stop()
    with pytest.raises(InvalidArgumentError, match="as plain text"):
        FlightPushServer(gateway, host="0.0.0.0")
