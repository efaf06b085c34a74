"""A Hudi table as the source of a stream: each micro batch has the rows committed since the previous one.

Follows `HoodieStreamSource` of Hudi 0.15: an offset is the instant time of a commit, as JSON `{"commitTime":
"…"}`, and a micro batch is an incremental query between two of them. The additional field `bootstrap` is
hudisql's own (`Place`). Spark stores the offsets in the checkpoint directory of the stream and requests the
same window again after a failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from hudisql.config.config_key import HudiConfig
from hudisql.config.hudi_config import HOLLOW_COMMITS
from hudisql.errors import InvalidArgumentError
from hudisql.format.schema.spark_schema import arrow_from_spark_json
from hudisql.options.unserved_settings import (
    AS_OF_INSTANT,
    BEGIN_INSTANT,
    END_INSTANT,
    is_cdc_query,
    policy_of_places,
    query_type_of_options,
)
from hudisql.table.history.taken_changes import Place, check_not_undone, place_at
from hudisql.table.history.timeline_window import (
    EARLIEST,
    instant_time_of_bound,
    newest_commit_time,
    timeline_window,
)
from pyspark_hudisql.inputs import capture_inputs, read_input, scan_inputs
from pyspark_hudisql.read_options import changes_of_options, open_table_of, plain_errors, storage_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:
    # PySpark 4.1 lacks this class: there `availableNow` is one batch.
    SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]

START_OFFSET: Final = "hoodie.datasource.streaming.startOffset"
_LATEST: Final = "latest"
_COMMIT_TIME: Final = "commitTime"
_BOOTSTRAP: Final = "bootstrap"
_BEFORE_ALL: Final = "00000000000000"
_WAIT: Final = (
    "wait until it is completed or rolled back, then start the stream again: it continues where it stopped"
)


class HudiStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The micro batches of a stream over a table, or one partition path of it."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        # Spark hides exceptions of the constructor, so options are checked later.
        self._options = options
        self._output = arrow_from_spark_json(schema.json())
        self._storage = storage_of(options)
        self._begin: dict[str, str] | None = None
        self._last: dict[str, str] | None = None

    def initialOffset(self) -> dict[str, str]:  # noqa: N802
        """The offset at which a new stream begins: before all commits, after the newest, or after an instant.

        Raises InvalidArgumentError for options that streams do not support.
        """
        with plain_errors():
            _check_options(self._options)
            begin = self._begin_of_options
            if begin is None:
                self._begin = self._newest()
                return self._begin
        return {_COMMIT_TIME: begin}

    def latestOffset(  # noqa: N802
        self,
        start: dict[str, str] | None = None,  # noqa: ARG002
        limit: ReadLimit | None = None,  # noqa: ARG002
    ) -> dict[str, str]:
        """The newest commit, but at least the begin in the options.

        Raises HollowCommitError if a commit before it is pending and the policy is FAIL.

        There are no read limits: rows that later commits have replaced are in no batch, so a longer window
        has fewer rows than its parts together.
        """
        if self._last is not None:
            return self._last
        if self._begin is not None:
            # Spark stores the end of the first batch, not its begin: no commit may lie between "latest" and
            # that end.
            begin, self._begin = self._begin, None
            return begin
        with plain_errors():
            return self._newest()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """End the stream with the commits that exist now. Raises HollowCommitError."""
        self._last = self.latestOffset()

    def _newest(self) -> dict[str, str]:
        _check_options(self._options)
        table, _ = open_table_of(self._options)
        newest = newest_commit_time(table, self._policy) or _BEFORE_ALL
        begin = self._begin_of_options or _BEFORE_ALL
        return _offset(place_at(table, newest) if newest > begin else Place(begin))

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """The work for the commits after `start` up to and with `end`.

        Raises NoSuchStateError if files of them were cleaned, the commit `start` was undone or the table made
        again, HollowCommitError if one of them is pending by now.
        """
        begin, last = start[_COMMIT_TIME], end[_COMMIT_TIME]
        with plain_errors():
            table, below = open_table_of(self._options)
            if begin != self._begin_of_options:
                check_not_undone(table, Place(begin, start.get(_BOOTSTRAP, "")))
            if begin >= last:
                return []
            # Spark continues after `end`: the rows of a pending commit before it would never be read.
            window = timeline_window(table, begin, last, "FAIL", _WAIT)
            if is_cdc_query(self._options):
                return list(capture_inputs(table, window, below, self._output))
            state = changes_of_options(table, window, self._options)
            return list(scan_inputs(state, below, self._output, self._options))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        yield from read_input(self._storage, partition, self._output)

    def commit(self, end: dict[str, str]) -> None:
        """Nothing is stored outside of the stream's checkpoint directory."""

    def stop(self) -> None:
        """Nothing is held between micro batches."""

    @property
    def _begin_of_options(self) -> str | None:
        """The instant time after which a new stream begins; None for the newest commit's."""
        text = self._options.get(START_OFFSET.lower(), EARLIEST).strip()
        if text.lower() == _LATEST:
            return None
        return _BEFORE_ALL if text.lower() == EARLIEST else instant_time_of_bound(text, START_OFFSET)

    @property
    def _policy(self) -> str:
        # By default Hudi's streams wait for a pending commit, while its batches fail.
        config = HudiConfig(self._options.get)
        return config.get(HOLLOW_COMMITS) if config.is_set(HOLLOW_COMMITS) else "BLOCK"


def _offset(place: Place) -> dict[str, str]:
    bootstrap = {_BOOTSTRAP: place.bootstrap} if place.bootstrap else {}
    return {_COMMIT_TIME: place.until, **bootstrap}


def _check_options(options: Mapping[str, str]) -> None:
    query_type = query_type_of_options(options)
    if query_type == "read_optimized":
        raise InvalidArgumentError(
            "a stream has the rows of base and log files: it does not take the query type 'read_optimized'",
            hint="leave the option out",
        )
    for name in (AS_OF_INSTANT, BEGIN_INSTANT, END_INSTANT):
        if options.get(name):
            raise InvalidArgumentError(
                f"{name} is an option of batches", hint=f"{START_OFFSET} says where a stream begins"
            )
    policy_of_places(HudiConfig(options.get).get, "a stream's offsets are")
