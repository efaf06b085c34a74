from __future__ import annotations

from typing import Any

import pytest

from hudisql.spark.hadoop_configuration import hadoop_configuration
from hudisql.storage import Storage


@pytest.mark.spark
def test_the_sessions_file_system_settings_are_collected_and_no_others(spark: Any) -> None:
    given = {
        "fs.s3a.access.key": "hush",
        "fs.s3a.bucket.own.endpoint": "minio.local:9000",
        "dfs.nameservices": "cluster",
        "dfs.ha.namenodes.cluster": "a,b",
        "dfs.namenode.rpc-address.cluster.a": "a.local:8020",
    }
    for key, value in given.items():
        spark.conf.set(key, value)
    try:
        collected = hadoop_configuration(spark)
    finally:
        for key in given:
            spark.conf.unset(key)
    assert given.items() <= collected.items()
    assert collected["fs.defaultFS"] == "file:///"
    assert not [key for key in collected if key.startswith(("spark.", "mapreduce.", "io."))]
    assert "hush" not in repr(Storage(collected))
