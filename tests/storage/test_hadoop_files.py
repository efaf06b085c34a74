"""File system settings without a JVM: site files, Hive's and Spark's settings over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from hudisql.errors import SettingsError
from hudisql.storage.hadoop_files import hadoop_settings, hive_site_settings


def test_site_files_give_way_to_settings(tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name> fs.defaultFS </name><value>hdfs://a</value></property>"
        "<property><name>fs.s3a.endpoint</name><value>one</value></property>"
        "<property><name>no.value</name></property></configuration>"
    )
    (tmp_path / "hdfs-site.xml").write_text(
        "<configuration><property><name>dfs.nameservices</name><value>a</value></property></configuration>"
    )
    conf = {"spark.hadoop.fs.s3a.endpoint": "three", "spark.master": "local"}
    environment = {"HADOOP_CONF_DIR": str(tmp_path)}
    assert hadoop_settings(conf, {"fs.s3a.endpoint": "two", "x": "y"}, environment) == {
        "fs.defaultFS": "hdfs://a",
        "dfs.nameservices": "a",
        "fs.s3a.endpoint": "three",
        "x": "y",
    }
    assert hadoop_settings({}, {}, {}) == {}


def test_a_site_file_that_is_no_xml_is_named(tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_text("<configuration>")
    with pytest.raises(SettingsError, match=r"cannot read .*core-site\.xml"):
        hadoop_settings({}, {}, {"HADOOP_CONF_DIR": str(tmp_path)})


def test_hive_site_is_found_where_hive_keeps_it(tmp_path: Path) -> None:
    text = "<configuration><property><name>hive.x</name><value>{}</value></property></configuration>"
    for name in ("hive", "hadoop"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "hive-site.xml").write_text(text.format(name))
    both = {"HIVE_CONF_DIR": str(tmp_path / "hive"), "HADOOP_CONF_DIR": str(tmp_path / "hadoop")}
    assert hive_site_settings(both) == ({"hive.x": "hive"}, str(tmp_path / "hive/hive-site.xml"))
    assert hive_site_settings({**both, "HIVE_CONF_DIR": str(tmp_path)})[0] == {"hive.x": "hadoop"}
    assert hive_site_settings({"HIVE_CONF_DIR": ""}) == ({}, "")


def test_a_site_file_is_parsed_once_and_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "<configuration><property><name>x</name><value>{}</value></property></configuration>"
    (tmp_path / "core-site.xml").write_text(text.format("one"))
    parsed: list[Path] = []
    parse = ElementTree.parse

    def counted(path: Path) -> Any:
        parsed.append(path)
        return parse(path)

    monkeypatch.setattr(ElementTree, "parse", counted)
    for _ in range(2):
        settings = hadoop_settings({}, {}, {"HADOOP_CONF_DIR": str(tmp_path)})
        assert settings == {"x": "one"}
        settings["x"] = "changed by who asked"
    assert parsed == [tmp_path / "core-site.xml"]
    (tmp_path / "core-site.xml").write_text(text.format("another"))
    assert hadoop_settings({}, {}, {"HADOOP_CONF_DIR": str(tmp_path)}) == {"x": "another"}
