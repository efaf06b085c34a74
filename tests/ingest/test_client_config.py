"""TLS, SASL and passwords: the file of a worker, and a real broker that asks for them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hudisql.config.settings import Settings
from hudisql.context import Context
from hudisql.errors import KafkaError, SettingsError
from hudisql.ingest.client_config import NO_CLIENT_CONFIG, read_client_config
from hudisql.ingest.kafka.group_state import read_group
from hudisql.ingest.kafka.kafka_source import KafkaSource
from hudisql.service_process.ingest.ingest_status import find_status
from tests.ingest.broker import PASSWORD, USER, KafkaBroker
from tests.ingest.fed_tables import STORAGE, FedTables
from tests.ingest.worker_processes import WorkerServer

PLAIN = f"""
# what all listeners of this test ask for
security.protocol = SASL_PLAINTEXT
sasl.mechanism = PLAIN
sasl.username = {USER}
sasl.password = ${{env:KAFKA_PASSWORD}}
"""


def write(path: Path, text: str) -> str:
    (path / "kafka.properties").write_text(text)
    return str(path / "kafka.properties")


def test_a_file_has_settings_for_all_clusters_and_for_some(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of-a-file\n")
    text = f"""
sasl.password=a=${{env:SECRET}}:${{file:{tmp_path}/secret}}
schema.registry.basic.auth.user.info = me:${{env:SECRET}}
! another comment
[one:9092,two:9092]
security.protocol=SSL
schema.registry.ssl.ca.location=/ca.pem
"""
    config = read_client_config(write(tmp_path, text), {"SECRET": "s:3"})
    assert config.kafka("other:9092") == {"sasl.password": "a=s:3:of-a-file"}
    assert config.kafka("one:9092,two:9092")["security.protocol"] == "SSL"
    assert config.registry("other:9092") == {"user": "me", "password": "s:3"}
    assert config.registry("one:9092,two:9092")["ca_file"] == "/ca.pem"
    assert "s:3" not in repr(config)
    assert read_client_config("") is NO_CLIENT_CONFIG


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("security.protocol", "line 1: 'security.protocol' has no value"),
        ("\ngroup.id=x", "line 2: group.id is decided by the worker"),
        ("sasl.jaas.config=x", "a setting of Java's clients"),
        ("schema.registry.url=x", "schema.registry.url is unknown"),
        ("sasl.password=${env:ABSENT_HERE}", "environment variable ABSENT_HERE is not set"),
        ("sasl.password=${file:/absent/here}", "cannot read /absent/here"),
    ],
)
def test_a_line_that_cannot_be_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        read_client_config(write(tmp_path, text))
    with pytest.raises(SettingsError, match="cannot read the Kafka settings"):
        read_client_config(str(tmp_path / "absent"))


def test_what_librdkafka_does_not_take_is_named() -> None:
    for name, value in {"no.such.setting": "1", "security.protocol": "SASL"}.items():
        with pytest.raises(SettingsError, match=name):
            KafkaSource("127.0.0.1:1", {name: value})
        with pytest.raises(SettingsError, match=name):
            read_group("127.0.0.1:1", "none", {name: value})


@pytest.mark.hms
@pytest.mark.kafka
def test_a_worker_reads_a_cluster_that_asks_for_a_password(
    tables: FedTables, workers: WorkerServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    table = tables.make("secured")
    table.produce(range(30))
    table.declare(bootstrap_servers=table.broker.sasl_servers)
    config = write(tmp_path, PLAIN.replace("${env:KAFKA_PASSWORD}", PASSWORD))
    workers.catch_up(group="secured", kafka_config=config)
    table.check()
    settings = Settings(kafka_config=write(tmp_path, PLAIN))
    context = Context(None, table.client, STORAGE, settings=settings)  # type: ignore[arg-type]
    (row,) = find_status(context, group="secured").rows
    assert (row.lag, row.state) == (0, "no worker")
    assert PASSWORD not in str(table.client.get_table("fed", "secured"))


def partitions_with(servers: str, topic: str, **more: str) -> list[int]:
    given = {name.replace("_", "."): value for name, value in more.items()}
    with closing(KafkaSource(servers, given)) as source:
        return source.partitions(topic)


@pytest.mark.kafka
def test_tls_and_scram_let_in(broker: KafkaBroker) -> None:
    topic = broker.create_topic("guarded", 2)
    user: dict[str, Any] = {"sasl_username": USER, "sasl_password": PASSWORD}
    tls = {**user, "security_protocol": "SASL_SSL", "ssl_ca_location": str(broker.certificate)}
    assert partitions_with(broker.tls_servers, topic, **tls, sasl_mechanism="PLAIN") == [0, 1]
    assert partitions_with(broker.tls_servers, topic, **tls, sasl_mechanism="SCRAM-SHA-256") == [0, 1]


@pytest.mark.soak
@pytest.mark.kafka
def test_why_a_broker_refuses_is_named(broker: KafkaBroker) -> None:
    topic = broker.create_topic("refused", 2)
    user: dict[str, Any] = {"sasl_username": USER, "sasl_password": PASSWORD, "sasl_mechanism": "PLAIN"}
    plain = {**user, "security_protocol": "SASL_PLAINTEXT"}
    with pytest.raises(KafkaError, match="Invalid username or password"):
        partitions_with(broker.sasl_servers, topic, **{**plain, "sasl_password": "wrong"})
    untrusted = {**user, "security_protocol": "SASL_SSL"}
    with pytest.raises(KafkaError, match="certificate verify failed"):
        partitions_with(broker.tls_servers, topic, **untrusted)
