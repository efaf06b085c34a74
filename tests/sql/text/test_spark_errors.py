"""Spark's messages without Java's stack, with the place in the user's script."""

from __future__ import annotations

import pytest

from hudisql.errors import QueryError, SourceChangedError
from hudisql.sql.text.metastore_failure import failed_metastore_client
from hudisql.sql.text.spark_errors import SourceText, translate_spark_error

NOT_FOUND = (
    "[TABLE_OR_VIEW_NOT_FOUND] The table or view `nope` cannot be found. Verify the spelling. "
    "SQLSTATE: 42P01; line 2 pos 5;\n'Project [*]\n+- 'UnresolvedRelation [nope], [], false\n"
)
DIVISION = (
    "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`. SQLSTATE: 22012\n"
    "== SQL (line 1, position 8) ==\nselect 1/0\n       ^^^\n\n\nJVM stacktrace:\n"
    "org.apache.spark.SparkArithmeticException\n\tat org.apache.spark.sql.Foo.bar(Foo.scala:1)"
)
ABORTED = (
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task "
    "0.0 in stage 1.0 (TID 1) (host executor driver): java.io.IOException: cannot read x.parquet\n"
    "\tat org.apache.Foo.bar(Foo.java:1)\n\nDriver stacktrace:\n"
)
TASK = (
    "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
    '  File "x.py", line 1, in f\nhudisql.errors.SourceChangedError: /a/b.parquet is gone\n'
    "  -> run it again\n\n\tat org.apache.Foo.bar(Foo.java:1)"
)


class SparkLikeError(Exception):
    """An exception with the text where PySpark's own have it."""

    def __init__(self, message: str, cause: Exception | None = None) -> None:
        super().__init__(message)
        # In PySpark 3.5, and since 4.0.
        self.desc = self._desc = message
        self.cause = self._cause = cause


def test_a_wrong_checksum_is_found_among_the_causes() -> None:
    cause = SparkLikeError(
        "Job aborted", SparkLikeError("Checksum error: file:/a/b.parquet at 512 exp: 1 got: 2")
    )
    error = translate_spark_error(SparkLikeError("[UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY] parquet", cause))
    assert error.message.startswith("the checksum in /a/.b.parquet.crc is not that of /a/b.parquet,")


def test_an_analysis_error_says_where_in_the_script_and_nothing_of_plans() -> None:
    source = SourceText("select *\nfrom nope", line=10, column=4)
    error = translate_spark_error(SparkLikeError(NOT_FOUND), source)
    assert type(error) is QueryError
    assert error.message == (
        "[TABLE_OR_VIEW_NOT_FOUND] The table or view `nope` cannot be found. Verify the spelling.\n"
        "line 11, column 6:\n  from nope\n       ^^^^"
    )


def test_a_place_on_the_first_line_counts_from_the_statement_s_column() -> None:
    error = translate_spark_error(SparkLikeError(DIVISION), SourceText("select 1/0", line=3, column=5))
    assert error.message == (
        "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`.\nline 3, column 12:\n  select 1/0\n         ^"
    )


def test_a_rewritten_text_is_mapped_back() -> None:
    source = SourceText(
        "select x from t where nope", 1, 1, "select x from __long_name where nope", lambda offset: offset - 10
    )
    error = translate_spark_error(SparkLikeError("[X] no column; line 1 pos 32"), source)
    assert error.message.endswith(
        "line 1, column 23:\n  select x from t where nope\n                        ^^^^"
    )


@pytest.mark.parametrize("unwanted", ["Job aborted", "Driver stacktrace", "\tat ", "IOException"])
def test_a_failed_job_says_why_alone(unwanted: str) -> None:
    error = translate_spark_error(SparkLikeError(ABORTED))
    assert error.message == "cannot read x.parquet"
    assert unwanted not in error.message


def test_an_error_of_hudisql_s_own_task_comes_back_as_itself() -> None:
    error = translate_spark_error(SparkLikeError(TASK))
    assert type(error) is SourceChangedError
    assert error.message == "/a/b.parquet is gone"
    assert error.hint == "run it again"


def test_columns_of_hudisql_s_own_are_not_suggested() -> None:
    text = (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] No `x`. Did you mean one of the following? [{}]. SQLSTATE: 42703"
    )
    both = translate_spark_error(SparkLikeError(text.format("`__hudisql_position`, `dt`")))
    assert both.message.endswith("No `x`. Did you mean one of the following? [`dt`].")
    own = translate_spark_error(SparkLikeError(text.format("`__hudisql_position`")))
    assert own.message.endswith("No `x`.")


def test_a_place_in_another_text_than_the_given_one_is_not_shown() -> None:
    error = translate_spark_error(SparkLikeError(DIVISION), SourceText("select a from view"))
    assert error.message == "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`."


def test_the_reason_of_a_metastore_client_that_does_not_start_is_kept() -> None:
    message = "java.lang.RuntimeException: Unable to instantiate org.apache.hive.SessionHiveMetaStoreClient"
    cause = (
        "Caused by: MetaException(message:Could not connect to meta store using any URI. Most "
        "recent failure: org.apache.thrift.transport.TTransportException: {}\n\tat org.apache.x"
    )
    login = failed_metastore_client(message, cause.format("GSS initiate failed"))
    assert login is not None
    assert login.message == "Spark cannot log in to the metastore by Kerberos: GSS initiate failed"
    assert "HADOOP_CONF_DIR" in str(login.hint)
    away = failed_metastore_client(message, cause.format("java.net.ConnectException: Connection refused"))
    assert away is not None
    assert "cannot connect to the metastore: java.net.ConnectException: Connection refused" in away.message
    unknown = failed_metastore_client(message, "")
    assert unknown is not None
    assert failed_metastore_client("[TABLE_OR_VIEW_NOT_FOUND] …", cause) is None


def test_a_metastore_that_dropped_a_call_of_spark_s_client_names_the_settings() -> None:
    text = (
        "org.apache.hadoop.hive.ql.metadata.HiveException: Unable to fetch table trips. "
        "Invalid method name: 'get_table'"
    )
    hint = translate_spark_error(SparkLikeError(text)).hint
    assert hint is not None
    assert "spark.sql.hive.metastore.version" in hint
    assert "spark.sql.hive.metastore.jars" in hint
