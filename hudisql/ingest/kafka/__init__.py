"""Kafka: the source of events, and the group that distributes tables over workers."""

from hudisql.errors import SettingsError

try:
    import confluent_kafka as _confluent_kafka  # noqa: F401
except ModuleNotFoundError as error:
    raise SettingsError(
        "Kafka is read with the package confluent-kafka, which is not installed",
        hint="pip install 'hudisql[ingest]'",
    ) from error
