"""Settings by which clients of Kafka and of a schema registry log in: TLS, SASL, passwords, from a file.

The file has properties, like the files of Java's clients, with librdkafka's names. Lines after
`[host:9092,…]` apply to that cluster only. Secrets stay out of the metastore: tables name a cluster, and the
file, which may refer to environment variables and to other files, has the settings of its clients.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hudisql.errors import SettingsError

_REGISTRY_PREFIX: Final = "schema.registry."
_USER_INFO: Final = "basic.auth.user.info"
_REGISTRY_FILES: Final[Mapping[str, str]] = {
    "ssl.ca.location": "ca_file",
    "ssl.certificate.location": "certificate_file",
    "ssl.key.location": "key_file",
}
# What the worker itself decides, so that each event is taken once.
_OWN: Final = frozenset(
    {
        "bootstrap.servers",
        "client.id",
        "group.id",
        "group.protocol",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "auto.offset.reset",
        "partition.assignment.strategy",
    }
)
# Names of Java's clients, which librdkafka has not, and what it has instead.
_JAVA_NAMES: Final[Mapping[str, str]] = {
    "sasl.jaas.config": "sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location, a file of PEM",
    "ssl.truststore.password": "ssl.ca.location, a file of PEM, which needs none",
    "ssl.truststore.type": "ssl.ca.location, a file of PEM",
    "sasl.oauthbearer.token.endpoint.uri": "sasl.oauthbearer.token.endpoint.url",
    "sasl.login.callback.handler.class": "sasl.oauthbearer.method=oidc",
}
_REFERENCE: Final = re.compile(r"\$\{(env|file):([^}]+)\}")


@dataclass(frozen=True)
class ClientConfig:
    """Settings for all clusters, and for those with a section of their own, by bootstrap servers."""

    common: Mapping[str, str] = field(default_factory=dict, repr=False)
    clusters: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)

    def kafka(self, bootstrap_servers: str) -> dict[str, str]:
        """The settings of librdkafka for a cluster."""
        found = {**self.common, **self.clusters.get(bootstrap_servers, {})}
        return {name: value for name, value in found.items() if not name.startswith(_REGISTRY_PREFIX)}

    def registry(self, bootstrap_servers: str) -> dict[str, str]:
        """The arguments of a SchemaRegistry besides its address, for the tables of a cluster."""
        found = {**self.common, **self.clusters.get(bootstrap_servers, {})}
        given = {
            name.removeprefix(_REGISTRY_PREFIX): value
            for name, value in found.items()
            if name.startswith(_REGISTRY_PREFIX)
        }
        arguments = {_REGISTRY_FILES[name]: value for name, value in given.items() if name in _REGISTRY_FILES}
        if _USER_INFO in given:
            user, _, password = given[_USER_INFO].partition(":")
            arguments |= {"user": user, "password": password}
        return arguments


NO_CLIENT_CONFIG: Final = ClientConfig()


def read_client_config(path: str, environment: Mapping[str, str] | None = None) -> ClientConfig:
    """Read a file; an empty path gives no settings. Raises SettingsError, which names the line."""
    if not path:
        return NO_CLIENT_CONFIG
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read the Kafka settings {path}: {error}") from error
    common: dict[str, str] = {}
    clusters: dict[str, dict[str, str]] = {}
    current = common
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line or line[0] in "#!":
            continue
        if line[0] == "[" and line[-1] == "]":
            current = clusters.setdefault(line[1:-1].strip(), {})
            continue
        name, separator, value = line.partition("=")
        name = name.strip()
        if not separator:
            raise SettingsError(f"{path}, line {number}: '{name}' has no value", hint="name=value")
        _check_name(name, f"{path}, line {number}")
        current[name] = _resolved(value.strip(), environment, f"{path}, line {number}")
    return ClientConfig(common, clusters)


def _check_name(name: str, place: str) -> None:
    if name in _OWN:
        raise SettingsError(f"{place}: {name} is decided by the worker", hint="leave it out")
    if name in _JAVA_NAMES:
        raise SettingsError(
            f"{place}: {name} is a setting of Java's clients, and librdkafka reads Kafka here",
            hint=f"use {_JAVA_NAMES[name]}",
        )
    registry = name.removeprefix(_REGISTRY_PREFIX)
    if registry != name and registry != _USER_INFO and registry not in _REGISTRY_FILES:
        known = ", ".join(_REGISTRY_PREFIX + setting for setting in (_USER_INFO, *_REGISTRY_FILES))
        raise SettingsError(f"{place}: {name} is unknown", hint=f"known are {known}")


def _resolved(value: str, environment: Mapping[str, str] | None, place: str) -> str:
    """The value with its references `${env:NAME}` and `${file:PATH}` replaced."""
    variables = os.environ if environment is None else environment

    def find(match: re.Match[str]) -> str:
        kind, name = match[1], match[2]
        if kind == "env":
            if name not in variables:
                raise SettingsError(f"{place}: the environment variable {name} is not set")
            return variables[name]
        try:
            return Path(name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{place}: cannot read {name}: {error}") from error

    return _REFERENCE.sub(find, value)
