"""The client of a schema registry, against a server of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from hudisql.errors import InvalidArgumentError, SchemaRegistryError
from hudisql.ingest.parse.schema_registry import SchemaRegistry
from tests.free_port import find_free_port

ANSWERS = {
    "/schemas/ids/1": (200, {"schema": '"string"'}),
    "/schemas/ids/2": (200, {"schema": "{}", "schemaType": "PROTOBUF"}),
    "/schemas/ids/3": (200, {"schema": '"x"', "references": [{"name": "x", "subject": "s", "version": 1}]}),
    "/schemas/ids/4": (500, {"message": "boom"}),
    "/schemas/ids/5": (200, ["no object"]),
}


class Registry(BaseHTTPRequestHandler):
    asked: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Authorization"]))
        code, answer = ANSWERS.get(self.path, (404, {"error_code": 40403}))
        if self.headers["Authorization"] == "Basic dTp3cm9uZw==":
            code, answer = 401, {}
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def registry() -> Iterator[str]:
    Registry.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


def test_a_schema_is_asked_for_once(registry: str) -> None:
    client = SchemaRegistry(registry, user="u", password="secret")
    assert [client.schema_text(1), client.schema_text(1), client.schema_text(99)] == [
        '"string"',
        '"string"',
        None,
    ]
    assert Registry.asked == [
        ("/schemas/ids/1", "Basic dTpzZWNyZXQ="),
        ("/schemas/ids/99", "Basic dTpzZWNyZXQ="),
    ]
    assert "secret" not in repr(client)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (2, "schema 2 of .* is PROTOBUF"),
        (3, "refers to other schemas"),
        (4, "refused .*: 500"),
        (5, "no JSON object"),
    ],
)
def test_unusable_answers_are_named(registry: str, number: int, message: str) -> None:
    with pytest.raises(SchemaRegistryError, match=message):
        SchemaRegistry(registry).schema_text(number)


def test_a_refused_password_and_a_silent_address_are_named(registry: str) -> None:
    with pytest.raises(SchemaRegistryError, match="401") as error:
        SchemaRegistry(registry, user="u", password="wrong").schema_text(1)
    assert error.value.hint == "check user and password"
    with pytest.raises(SchemaRegistryError, match="does not answer"):
        SchemaRegistry(f"http://127.0.0.1:{find_free_port()}").schema_text(1)
    with pytest.raises(SchemaRegistryError, match="does not answer"):
        SchemaRegistry("https://127.0.0.1:1", ca_file="missing.pem").schema_text(1)
    with pytest.raises(InvalidArgumentError, match="not the address of a schema registry"):
        SchemaRegistry("registry:8081")
