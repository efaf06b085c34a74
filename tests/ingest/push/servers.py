"""A gateway, its servers on free ports, and a client that sends one request."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hudisql.ingest.parse.parsed_batch import BadRecord, ParsedBatch
from hudisql.ingest.push.bearer_tokens import TableTokens, hash_token
from hudisql.ingest.push.event_checks import RowCheck
from hudisql.ingest.push.gateway import PushGateway
from hudisql.ingest.push.http_server import HttpPushServer
from hudisql.ingest.push.push_limits import PushLimits
from hudisql.ingest.push.write_ahead_log import WriteAheadLog
from tests.free_port import find_free_port

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def refuse_null_ids(parsed: ParsedBatch) -> list[BadRecord]:
    at = np.flatnonzero(parsed.rows["id"].is_null().to_numpy())
    return [BadRecord(int(each), "its key (id) is null or empty") for each in parsed.positions[at]]


TABLES = {name: RowCheck(SCHEMA, refuse_null_ids) for name in ("lake.trips", "lake.riders")}
FORGIVING = {"lake.trips": RowCheck(SCHEMA, refuse_null_ids, takes_bad_rows=True)}
TOKEN = "a-token-of-trips"
OTHER_TOKEN = "a-token-of-riders"
TOKENS = TableTokens({"lake.trips": [hash_token(TOKEN)], "lake.riders": [hash_token(OTHER_TOKEN)]})


def make_gateway(
    log: WriteAheadLog,
    limits: PushLimits | None = None,
    tables: Mapping[str, RowCheck] = TABLES,
    **options: Any,
) -> PushGateway:
    return PushGateway(log, tables.get, TOKENS, limits, **options)


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def error(self) -> Any:
        return self.json["error"]


@dataclass
class HttpClient:
    port: int

    def send(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            named = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, named, response.read().decode())
        finally:
            connection.close()

    def push(self, body: Any, table: str = "lake.trips", token: str = TOKEN, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.send(
            "POST", f"/v1/tables/{table}/rows", body, {"Authorization": f"Bearer {token}", **named}
        )


@contextmanager
def http_server(gateway: PushGateway, **options: Any) -> Iterator[HttpClient]:
    port = find_free_port()
    server = HttpPushServer(gateway, port=port, **options)
    server.start()
    try:
        yield HttpClient(port)
    finally:
        server.stop()
