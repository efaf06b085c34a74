"""The settings of statements: declared once, parsed by their types, known to Hudi."""

from __future__ import annotations

from typing import Any

import pytest

from hudisql.config import hudi_config as hc
from hudisql.config.config_key import ConfigKey, HudiConfig
from hudisql.config.hudi_config import CONFIG_KEYS
from hudisql.errors import SettingsError
from hudisql.options.known_settings import misspelt_settings


def config_of(**values: str) -> HudiConfig:
    return HudiConfig({key.replace("__", "."): value for key, value in values.items()}.get)


def test_each_setting_is_declared_once_and_is_one_of_hudis_or_ours() -> None:
    names = [key.name for key in CONFIG_KEYS]
    assert len(set(names)) == len(names) > 40
    assert misspelt_settings(names) == {}
    assert {name.partition(".")[0] for name in names} == {"hoodie", "hudisql"}


@pytest.mark.parametrize("key", CONFIG_KEYS, ids=str)
def test_defaults_are_values_of_their_type(key: ConfigKey[Any]) -> None:
    if key.default:
        assert str(config_of().get(key)).lower() == key.default.lower()
    assert not config_of().is_set(key)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        (hc.SYNC, "False", False),
        (hc.MAX_FILE_SIZE, "12", 12),
        (hc.BLOOM_FPP, "0.5", 0.5),
        (hc.CODEC, "SNAPPY", "snappy"),
        (hc.SORT_MODE, "none", "NONE"),
        (hc.SORT_COLUMNS, " a, b ,", ("a", "b")),
        (hc.LOCK_PATH, "/x", "/x"),
    ],
    ids=str,
)
def test_texts_are_parsed_by_the_type(key: ConfigKey[Any], text: str, value: object) -> None:
    assert HudiConfig({key.name: text}.get).get(key) == value


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        (hc.SYNC, "perhaps", "hudisql.sync must be true or false, not 'perhaps'"),
        (hc.MAX_FILE_SIZE, "-1", "file.size must be a whole number, not '-1'"),
        (hc.BLOOM_FPP, "1", "fpp must be a number between 0 and 1, not '1'"),
        (hc.CODEC, "LZO", "codec must be one of gzip, snappy, zstd, uncompressed, not 'lzo'"),
        (hc.INDEX_TYPE, "hbase", "must be one of BLOOM, .*, not 'HBASE'"),
    ],
    ids=str,
)
def test_what_is_not_understood_is_refused_by_name(key: ConfigKey[Any], text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        HudiConfig({key.name: text}.get).get(key)


def test_values_below_hold_where_a_setting_is_not_set() -> None:
    config = config_of(hoodie__index__type="SIMPLE").over(
        {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "7"}.get
    )
    assert (config.get(hc.INDEX_TYPE), config.get(hc.BUCKET_COUNT)) == ("SIMPLE", "7")
    assert config.get(hc.BUCKET_ENGINE) == "SIMPLE"
