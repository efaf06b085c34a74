"""Settings that Hive, Hadoop and Spark have names of their own for: the metastore and its Kerberos login."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hudisql.config.settings import Settings
from hudisql.errors import SettingsError

_URIS: Final = "hive.metastore.uris"
_PREFIXES: Final = (("hiveconf", ""), ("conf", "spark.hadoop."), ("conf", "spark."))
_ADOPTED: Final = {
    "metastore_sasl": "hive.metastore.sasl.enabled",
    "metastore_principal": "hive.metastore.kerberos.principal",
    "kerberos_keytab": "spark.kerberos.keytab",
    "kerberos_principal": "spark.kerberos.principal",
}
ADOPTED_KEYS: Final = tuple(_ADOPTED.values())
"""The keys of Hive and Spark that say how to log in."""


def adopt_hive_settings(settings: Settings, site: Mapping[str, str], site_file: str) -> Settings:
    """The settings with what Hive's and Spark's own settings say of the metastore and of Kerberos.

    What hudisql was given itself comes first, then `hiveconf` and `conf`, then `site`, the settings of
    `site_file` (hive-site.xml). Spark and hudisql must use one metastore, otherwise Spark reads Hudi tables
    as plain files. Raises SettingsError if two different ones are given.
    """
    for origin, uris in _values_of(settings, _URIS):
        given = {uri.strip().rstrip("/") for uri in uris.split(",") if uri.strip()}
        if not given:
            continue
        if not settings.metastore_uris:
            settings = settings.with_layer({"metastore": uris}, origin)
        elif given != {uri.rstrip("/") for uri in settings.metastore_uris}:
            raise SettingsError(
                f"two metastores are given: {settings.metastore}, and {uris} by {origin}",
                hint="give one of them, as --metastore",
            )
    if "metastore" not in settings.origins and site.get(_URIS, "").strip():
        settings = settings.with_layer({"metastore": site[_URIS]}, site_file)
    for name, key in _ADOPTED.items():
        values = [*_values_of(settings, key), (site_file, site.get(key, ""))]
        origin, value = next((pair for pair in values if pair[1]), ("", ""))
        if value and name not in settings.origins:
            settings = settings.with_layer({name: value}, origin)
    return settings


def _values_of(settings: Settings, key: str) -> Iterator[tuple[str, str]]:
    """Where `hiveconf` and `conf` set this key of Hive's, and to what."""
    for layer, prefix in (("conf", ""),) if key.startswith("spark.") else _PREFIXES:
        value = getattr(settings, layer).get(prefix + key)
        if value is not None:
            yield f"{layer} {prefix}{key}", value
