"""Client of a schema registry (Confluent's REST interface): the writer schema of a message by its number."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any, Final

from hudisql.errors import InvalidArgumentError, SchemaRegistryError

_TIMEOUT_SECONDS: Final = 10.0
_NOT_FOUND: Final = 404


@dataclass(frozen=True)
class SchemaRegistry:
    """A registry at an http or https address; schemas never change, so each is requested once.

    `user` and `password` are basic authentication's. `ca_file` has the certificates to trust,
    `certificate_file` and `key_file` are the client's own.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    _known: dict[int, str | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise InvalidArgumentError(
                f"'{self.url}' is not the address of a schema registry", hint="use https://…"
            )

    def schema_text(self, number: int) -> str | None:
        """The Avro schema of that number as JSON text; None if the registry has none.

        Raises SchemaRegistryError if the registry does not answer, refuses, or has no Avro schema there.
        """
        if number not in self._known:
            self._known[number] = self._fetch(number)
        return self._known[number]

    def _fetch(self, number: int) -> str | None:
        found = self._get(f"/schemas/ids/{number}")
        if found is None:
            return None
        kind = found.get("schemaType", "AVRO")
        if kind != "AVRO" or "schema" not in found:
            raise SchemaRegistryError(f"schema {number} of {self.url} is {kind}, Avro was expected")
        if found.get("references"):
            raise SchemaRegistryError(
                f"schema {number} of {self.url} refers to other schemas, which is not supported",
                hint="register the schema with its named types in it",
            )
        return str(found["schema"])

    def _get(self, path: str) -> dict[str, Any] | None:
        url = self.url.rstrip("/") + path
        headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
        if self.user is not None:
            pair = f"{self.user}:{self.password or ''}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        try:
            request = urllib.request.Request(url, headers=headers)
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS, context=self._tls()) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == _NOT_FOUND:
                    return None
            raise SchemaRegistryError(
                f"the schema registry refused {url}: {error.code} {error.reason}",
                hint="check user and password" if error.code in (401, 403) else None,
            ) from error
        except (OSError, ValueError) as error:
            raise SchemaRegistryError(
                f"the schema registry does not answer at {url}: {error}",
                hint="check the address, the certificates and the network",
            ) from error
        if not isinstance(found, dict):
            raise SchemaRegistryError(f"the schema registry answered no JSON object at {url}")
        return found

    def _tls(self) -> ssl.SSLContext | None:
        if not self.url.startswith("https://"):
            return None
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.certificate_file is not None:
            context.load_cert_chain(self.certificate_file, self.key_file)
        return context
