"""Hive's, Hadoop's and Spark's own settings of the metastore and of Kerberos."""

from __future__ import annotations

import pytest

from hudisql.config.hive_settings import adopt_hive_settings
from hudisql.config.settings import Settings
from hudisql.errors import SettingsError

SITE = {
    "hive.metastore.uris": "thrift://a:1",
    "hive.metastore.sasl.enabled": "true",
    "hive.metastore.kerberos.principal": "hive/_HOST@R",
}


def layer(**values: object) -> Settings:
    return Settings().with_layer(values, "test")


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("hiveconf", "hive.metastore.uris"),
        ("conf", "spark.hadoop.hive.metastore.uris"),
        ("conf", "spark.hive.metastore.uris"),
    ],
)
def test_a_metastore_of_hive_s_own_setting_is_hudisql_s_too(name: str, key: str) -> None:
    given = layer(**{name: {key: "thrift://a:1"}})
    adopted = adopt_hive_settings(given, {}, "")
    assert adopted.metastore_uris == ("thrift://a:1",)
    assert adopted.origins["metastore"] == f"{name} {key}"
    same = given.with_layer({"metastore": "thrift://a:1/"}, "test")
    assert adopt_hive_settings(same, {}, "") == same
    with pytest.raises(SettingsError, match="two metastores are given: thrift://b:1, and thrift://a:1"):
        adopt_hive_settings(given.with_layer({"metastore": "thrift://b:1"}, "test"), {}, "")
    assert adopt_hive_settings(Settings(), {}, "") == Settings()


def test_the_site_file_comes_after_all_else() -> None:
    adopted = adopt_hive_settings(Settings(), SITE, "conf/hive-site.xml")
    assert (adopted.metastore, adopted.metastore_sasl) == ("thrift://a:1", True)
    assert adopted.metastore_principal == "hive/_HOST@R"
    assert adopted.origins["metastore_sasl"] == "conf/hive-site.xml"
    own = layer(metastore="thrift://b:2", metastore_sasl="false", metastore_principal="")
    assert adopt_hive_settings(own, SITE, "conf/hive-site.xml") == own
    embedded = layer(metastore="")
    assert adopt_hive_settings(embedded, SITE, "conf/hive-site.xml").metastore_uris == ()
    option = layer(hiveconf={"hive.metastore.kerberos.principal": "other/_HOST@R"})
    assert adopt_hive_settings(option, SITE, "x").metastore_principal == "other/_HOST@R"


def test_spark_s_keytab_is_hudisql_s_too() -> None:
    given = layer(conf={"spark.kerberos.keytab": "k", "spark.kerberos.principal": "ada@R"})
    adopted = adopt_hive_settings(given, {}, "")
    assert (adopted.kerberos_keytab, adopted.kerberos_principal) == ("k", "ada@R")
    with pytest.raises(SettingsError, match="must be true or false"):
        adopt_hive_settings(Settings(), {"hive.metastore.sasl.enabled": "maybe"}, "hive-site.xml")
