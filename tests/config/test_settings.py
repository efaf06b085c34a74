"""Settings: four layers, each value with its origin, secrets never shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudisql.config.settings import (
    SETTINGS,
    Settings,
    load_settings,
    mask_secret,
    unknown_environment_names,
)
from hudisql.errors import SettingsError


def origin_of(settings: Settings, name: str) -> tuple[str, str]:
    found = {each.name: (each.value, each.origin) for each in settings.described()}
    return found[name]


def test_without_any_layer_every_setting_is_a_default(tmp_path: Path) -> None:
    settings = load_settings(environment={}, working_directory=tmp_path)
    assert settings == Settings()
    assert {each.origin for each in settings.described()} == {"default"}
    assert settings.metastore_uris == ()


def test_each_layer_wins_over_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "hudisql.toml"
    file.write_text(
        'metastore = "thrift://file:1"\nmaster = "local[7]"\nwarehouse = "/file"\nformat = "csv"\n'
    )
    environment = {"HUDISQL_MASTER": "local[8]", "HUDISQL_WAREHOUSE": "/env"}
    settings = load_settings(
        {"warehouse": "/cli", "format": None}, environment=environment, working_directory=tmp_path
    )
    assert origin_of(settings, "metastore") == ("thrift://file:1", str(file))
    assert origin_of(settings, "master") == ("local[8]", "environment HUDISQL_MASTER")
    assert origin_of(settings, "warehouse") == ("/cli", "command line")
    assert origin_of(settings, "format") == ("csv", str(file))
    assert origin_of(settings, "database") == ("default", "default")


def test_maps_are_merged_key_by_key(tmp_path: Path) -> None:
    (tmp_path / "hudisql.toml").write_text(
        "[conf]\nspark.ui.enabled = true\n'spark.a' = 1\n[hivevar]\nday = '2024-01-01'\n"
    )
    settings = load_settings(
        {"conf": {"spark.a": "3"}},
        environment={"HUDISQL_CONF": "spark.a=2 'spark.b=x y=z'"},
        working_directory=tmp_path,
    )
    assert settings.conf == {"spark.ui.enabled": "true", "spark.a": "3", "spark.b": "x y=z"}
    assert settings.hivevar == {"day": "2024-01-01"}
    assert origin_of(settings, "conf.spark.a") == ("3", "command line")
    assert origin_of(settings, "conf.spark.b") == ("x y=z", "environment HUDISQL_CONF")


def test_config_variable_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('database = "sales"\n')
    (tmp_path / "hudisql.toml").write_text('database = "ignored"\n')
    environment = {"HUDISQL_CONFIG": "other.toml"}
    assert load_settings(environment=environment, working_directory=tmp_path).database == "sales"
    with pytest.raises(SettingsError, match="names no file"):
        load_settings(environment={"HUDISQL_CONFIG": "absent.toml"}, working_directory=tmp_path)


def test_user_configuration_directory_is_the_fallback(tmp_path: Path) -> None:
    directory = tmp_path / "home" / ".config" / "hudisql"
    directory.mkdir(parents=True)
    (directory / "hudisql.toml").write_text('database = "mine"\n')
    environment = {"HOME": str(tmp_path / "home")}
    assert load_settings(environment=environment, working_directory=tmp_path).database == "mine"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("metastor = 'x'", "did you mean 'metastore'"),
        ("master = 4", "must be text"),
        ("metastore_sasl = 'perhaps'", "must be true or false"),
        ("format = 'xml'", "must be one of table, csv"),
        ("conf = 'spark.a=1'", "must be a table"),
        ("master = ", "is not valid TOML"),
    ],
)
def test_bad_files_are_errors_that_name_them(tmp_path: Path, content: str, complaint: str) -> None:
    file = tmp_path / "hudisql.toml"
    file.write_text(content)
    with pytest.raises(SettingsError) as caught:
        load_settings(environment={}, working_directory=tmp_path)
    assert complaint in str(caught.value)
    assert str(file) in str(caught.value)


def test_bad_environment_values_name_the_variable(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="HUDISQL_CONF"):
        load_settings(environment={"HUDISQL_CONF": "spark.a"}, working_directory=tmp_path)


def test_unknown_variables_are_found_and_misspelt_ones_are_errors(tmp_path: Path) -> None:
    environment = {"HUDISQL_PORT": "tcp://", "HUDISQL_MASTER": "local", "HUDISQL_CONFIG": "", "OTHER": ""}
    assert unknown_environment_names(environment) == {"HUDISQL_PORT": None}
    load_settings(environment=environment, working_directory=tmp_path)
    with pytest.raises(SettingsError, match="did you mean HUDISQL_FORMAT") as caught:
        load_settings(environment={"HUDISQL_FROMAT": "csv"}, working_directory=tmp_path)
    assert "HUDISQL_FROMAT" in caught.value.message


def test_secrets_are_masked() -> None:
    settings = Settings().with_layer(
        {
            "conf": {"spark.hadoop.fs.s3a.secret.key": "abc", "spark.my.PASSWORD": "abc"},
            "hiveconf": {"javax.jdo.option.ConnectionURL": "jdbc:postgresql://me:abc@host/db"},
            "hivevar": {"db": "jdbc:mysql://h/d?user=me&password=abc&x=1", "ftp_passphrase": "abc"},
        },
        "test",
    )
    option = "spark.driver.extraJavaOptions"
    settings = settings.with_layer({"conf": {option: "-Da=1 -Djavax.net.ssl.trustStorePassword=abc"}}, "test")
    shown = {each.name: each.value for each in settings.described()}
    assert "abc" not in " ".join(shown.values())
    assert shown["hivevar.db"] == "jdbc:mysql://h/d?user=me&password=******&x=1"
    assert shown[f"conf.{option}"] == "-Da=1 -Djavax.net.ssl.trustStorePassword=******"
    assert mask_secret("url", "thrift://host:9083") == "thrift://host:9083"


def test_every_declared_setting_has_help() -> None:
    assert all(declaration.help for declaration in SETTINGS)
    assert Settings(metastore=" thrift://a:1 ,thrift://b:2,").metastore_uris == (
        "thrift://a:1",
        "thrift://b:2",
    )


@pytest.mark.parametrize(
    "given",
    [
        {"warehouse": "s3a://KEY:SEC/RET@bucket/lake"},
        {"conf": {"spark.sql.warehouse.dir": "s3a://KEY:SEC/RET@bucket/lake"}},
        {"hiveconf": {"fs.defaultFS": "hdfs://KEY:SECRET@host:8020"}},
    ],
)
def test_paths_with_credentials_are_refused_and_not_shown(given: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"://\*{6}@\w+.* holds credentials") as caught:
        Settings().with_layer(given, "command line")
    assert "RET" not in str(caught.value)
    assert mask_secret("proxy", "http://me:SEC/RET@proxy:80") == "http://******@proxy:80"
