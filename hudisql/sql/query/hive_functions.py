"""Hive's built-in functions, by Hive's own classes where Spark has none, or answers differently.

Spark ships the classes. A function is registered in a session when a text first uses it: registering all
would take seconds. `docs/functions.md` lists the differences, `tests/hive/test_functions.py` compares all
functions with those of Apache Hive 2.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any, Final

from hudisql.config.config_key import config_of_session
from hudisql.config.hudi_config import FUNCTIONS
from hudisql.spark.jvm import java_class, session_state, spark_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGE: Final = "org.apache.hadoop.hive.ql.udf."
LACKING: Final[Mapping[str, str]] = {
    **{f"floor_{unit}": f"UDFDateFloor{unit.title()}" for unit in ("second", "minute", "hour", "day")},
    **{f"floor_{unit}": f"UDFDateFloor{unit.title()}" for unit in ("week", "month", "quarter", "year")},
    "$sum0": "generic.GenericUDAFSumEmptyIsZero",
    "compute_stats": "generic.GenericUDAFComputeStats",
    "field": "generic.GenericUDFField",
    "in_file": "generic.GenericUDFInFile",
    "index": "generic.GenericUDFIndex",
    "mask_first_n": "generic.GenericUDFMaskFirstN",
    "mask_hash": "generic.GenericUDFMaskHash",
    "mask_last_n": "generic.GenericUDFMaskLastN",
    "mask_show_first_n": "generic.GenericUDFMaskShowFirstN",
    "mask_show_last_n": "generic.GenericUDFMaskShowLastN",
    "parse_url_tuple": "generic.GenericUDTFParseUrlTuple",
    "reflect2": "generic.GenericUDFReflect2",
    "replicate_rows": "generic.GenericUDTFReplicateRows",
    "sort_array_by": "generic.GenericUDFSortArrayByField",
}
"""Functions that Spark lacks, with the classes of Hive in `org.apache.hadoop.hive.ql.udf`."""
DIFFERENT: Final[Mapping[str, str]] = {
    "aes_decrypt": "generic.GenericUDFAesDecrypt",
    "aes_encrypt": "generic.GenericUDFAesEncrypt",
    "date_format": "generic.GenericUDFDateFormat",
    "elt": "generic.GenericUDFElt",
    "hash": "generic.GenericUDFHash",
    "lpad": "generic.GenericUDFLpad",
    "mask": "generic.GenericUDFMask",
    "next_day": "generic.GenericUDFNextDay",
    "percentile_approx": "generic.GenericUDAFPercentileApprox",
    "rpad": "generic.GenericUDFRpad",
    "sqrt": "UDFSqrt",
    "std": "generic.GenericUDAFStd",
    "stddev": "generic.GenericUDAFStd",
    "variance": "generic.GenericUDAFVariance",
}
"""Functions of both whose results differ in some calls."""
_NAMES: Final = re.compile(
    rf"(?<![\w.])`?({'|'.join(re.escape(name) for name in (*LACKING, *DIFFERENT))})`?\s*\("
)
_CATALYST: Final = "org.apache.spark.sql.catalyst"


def called_hive_functions(text: str) -> frozenset[str]:
    """The names of LACKING and DIFFERENT that a SQL text seems to call, in lower case."""
    lowered = text.lower()
    if not any(name in lowered for name in (*LACKING, *DIFFERENT)):
        return frozenset()
    return frozenset(_NAMES.findall(lowered))


def provide_hive_functions(spark: SparkSession, names: Set[str]) -> None:
    """Select the functions of the session, by the setting `hudisql.sql.functions`.

    Sessions without Hive's classes (`spark.sql.catalogImplementation` other than `hive`) keep Spark's
    functions. Raises SettingsError for an unknown value of the setting.
    """
    if not names or spark.conf.get("spark.sql.catalogImplementation", None) != "hive":
        return
    for name in sorted(names & LACKING.keys()):
        if not spark.catalog.functionExists(f"`{name}`"):
            _create(spark, name, LACKING[name])
    if different := sorted(names & DIFFERENT.keys()):
        as_hive = config_of_session(spark).get(FUNCTIONS) == "hive"
        for name in different:
            _choose(spark, name, as_hive)


def _create(spark: SparkSession, name: str, class_: str) -> None:
    spark_sql(spark, f"CREATE OR REPLACE TEMPORARY FUNCTION `{name}` AS '{_PACKAGE}{class_}'")


def _choose(spark: SparkSession, name: str, as_hive: bool) -> None:
    """Register Hive's class, or Spark's expression, for a function name of Spark in this session."""
    registry = session_state(spark).functionRegistry()
    own = _identifier(spark, registry, name, "builtin")
    is_hive = str(registry.lookupFunction(own).get().getClassName()).startswith(_PACKAGE)
    if is_hive is as_hive:
        return
    if as_hive:
        aside = f"hive_{name}"
        _create(spark, aside, DIFFERENT[name])
        source, found = registry, _identifier(spark, registry, aside, "session")
    else:
        source, found = java_class(spark, f"{_CATALYST}.analysis.FunctionRegistry").builtin(), own
    builder, info = source.lookupFunctionBuilder(found).get(), source.lookupFunction(found).get()
    registry.registerFunction(own, info, builder)


def _identifier(spark: SparkSession, registry: Any, name: str, schema: str) -> Any:
    """The registry's name of a function: from Spark 4.3 on within `system.builtin` or `system.session`."""
    make, some = java_class(spark, f"{_CATALYST}.FunctionIdentifier"), java_class(spark, "scala.Some")
    qualified = make(name, some(schema), some("system"))
    return qualified if registry.functionExists(qualified) else make(name)
