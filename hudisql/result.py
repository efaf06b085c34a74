"""The result of a statement: rows of a Spark DataFrame, or rows of a procedure.

Both have one interface: `.df`, `.rows`, `.schema`, `.arrow()`, `.toPandas()`, `.show()`, and are iterable.
Spark runs only when rows are requested; its errors are then translated as at the statement itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from hudisql.errors import HudisqlError, SessionClosedError
from hudisql.spark.collected_rows import first_rows
from hudisql.spark.jvm import java_context
from hudisql.spark.versions import arrow_schema

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, Row, StructType

_SHOWN_ROWS: Final = 20
ErrorGuard = Callable[[], AbstractContextManager[None]]


class Result:
    """The result of one statement. `has_rows` is false for statements without rows (DDL, USE …).

    Iteration and `len` collect all rows. Libraries that take Arrow data take a result, too
    (`polars.DataFrame(result)`, `pyarrow.table(result)`). `error` is the failure that a check (`CALL
    verify_bootstrap`, a dry run) reports in its rows, or None.
    """

    error: HudisqlError | None = None

    def __init__(self, df: DataFrame | None, *, guard: ErrorGuard = nullcontext) -> None:
        self._df = df
        self._statement_guard = guard

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Translate Spark's exceptions to hudisql's errors. Raises SessionClosedError."""
        self._check_open()
        with self._statement_guard():
            yield

    def raise_error(self) -> None:
        """Raise `error` if there is one."""
        if self.error is not None:
            raise self.error

    def _check_open(self) -> None:
        _refuse_stopped(self._df.sparkSession if self._df is not None else None)

    @property
    def has_rows(self) -> bool:
        """True if the statement returns rows, possibly zero."""
        return bool(self.names)

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        assert self._df is not None
        return list(self._df.columns)

    @property
    def df(self) -> DataFrame:
        """The rows as a Spark DataFrame. Raises SessionClosedError."""
        assert self._df is not None
        self._check_open()
        return self._df

    @property
    def schema(self) -> StructType:
        """The columns' names and types."""
        return self.df.schema

    @cached_property
    def rows(self) -> list[Row]:
        """All rows, collected once. Raises QueryError."""
        with self.guard():
            return self.df.collect()

    def arrow(self) -> pa.Table:
        """All rows as an Arrow table. Raises QueryError."""
        return self._arrow_of(self.df)

    def _arrow_of(self, df: DataFrame) -> pa.Table:
        from hudisql.spark.versions import to_arrow

        with self.guard():
            return to_arrow(_with_nullable_members(df))

    def collect(self) -> list[Row]:
        """The same as `rows`, as a DataFrame has it. Raises QueryError."""
        return self.rows

    def toPandas(self) -> pd.DataFrame:  # noqa: N802 - PySpark's name
        """All rows as a pandas DataFrame. Raises QueryError."""
        return self.arrow().to_pandas()

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows if self.has_rows else ())

    def __len__(self) -> int:
        return len(self.rows) if self.has_rows else 0

    def __bool__(self) -> bool:
        # Not by the number of rows: that would run the query.
        return True

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        # The Arrow PyCapsule interface.
        return self.arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        if not self.has_rows:
            return f"{type(self).__name__} without rows"
        try:
            shown = self._first_rows(_SHOWN_ROWS + 1)
        except HudisqlError as error:
            return f"{type(self).__name__}: {error.message}"
        more = "\n…" if len(shown) > _SHOWN_ROWS else ""
        return str(shown.head(_SHOWN_ROWS).to_string(index=False)) + more

    def _first_rows(self, count: int) -> pd.DataFrame:
        with self.guard():
            first = first_rows(self.df, count)
        return self._arrow_of(first).to_pandas()

    def show(self, n: int = 20, truncate: bool | int = True) -> None:
        """Print the first rows on standard output, as Spark does."""
        with self.guard():
            self.df.show(n, truncate)

    def _repr_html_(self) -> str | None:
        # Notebooks show the first rows of a result that is a cell's value.
        if not self.has_rows:
            return None
        return str(self._first_rows(_SHOWN_ROWS).to_html(index=False))


class LocalResult(Result):
    """Rows of the driver (procedures, DESCRIBE …); the DataFrame is created on first use.

    `spark` may be a function that starts Spark: `rows` and `arrow` do not need it.
    """

    def __init__(
        self,
        spark: SparkSession | Callable[[], SparkSession],
        columns: Sequence[tuple[str, str]],
        rows: Iterable[Sequence[object]],
        *,
        error: HudisqlError | None = None,
    ) -> None:
        super().__init__(None)
        self.error = error
        self._given_spark = spark
        self._columns = tuple(columns)
        self._values = [tuple(row) for row in rows]

    @property
    def has_rows(self) -> bool:
        """True if there are columns."""
        return bool(self._columns)

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return [name for name, _ in self._columns]

    @property
    def values(self) -> Sequence[tuple[object, ...]]:
        """The rows as plain tuples."""
        return self._values

    @cached_property
    def _spark(self) -> SparkSession:
        return self._given_spark() if callable(self._given_spark) else self._given_spark

    @cached_property
    def df(self) -> DataFrame:
        """The rows as a Spark DataFrame. Raises SessionClosedError."""
        self._check_open()
        return self._spark.createDataFrame(self._values, self.schema, verifySchema=False)

    @cached_property
    def schema(self) -> StructType:
        """The declared columns. Raises SessionClosedError."""
        self._check_open()
        from pyspark.sql.types import StructField, StructType, _parse_datatype_string

        return StructType(
            [StructField(name, _parse_datatype_string(kind), True) for name, kind in self._columns]
        )

    @cached_property
    def rows(self) -> list[Row]:
        """The rows."""
        from pyspark.sql.types import Row

        make: Any = Row(*(name for name, _ in self._columns))
        return [make(*values) for values in self._values]

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table. Raises SessionClosedError."""
        import pyarrow as pa

        schema = arrow_schema(self.schema)
        columns = list(zip(*self._values, strict=True)) if self._values else [()] * len(schema)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    def _first_rows(self, count: int) -> pd.DataFrame:
        import pandas as pd

        self._check_open()
        return pd.DataFrame(self._values[:count], columns=self.names, dtype=object)

    def _check_open(self) -> None:
        _refuse_stopped(self._spark)


def _refuse_stopped(spark: SparkSession | None) -> None:
    # Closing a session stops the Spark that hudisql started, not one of the user.
    if spark is not None and java_context(spark.sparkContext) is None:
        raise SessionClosedError(
            "the session of this result is closed",
            hint="read a result's rows before close(), or connect again",
        )


def _with_nullable_members(df: DataFrame) -> DataFrame:
    """The rows with nullable types inside structs, arrays and maps, as Arrow needs them.

    Members of a NULL struct have no value, even if Spark declares them as not nullable.
    """
    from pyspark.sql import functions as sf

    wanted = [_nullable(field.dataType) for field in df.schema]
    if all(kind == field.dataType for kind, field in zip(wanted, df.schema, strict=True)):
        return df
    positional = df.toDF(*(f"c{position}" for position in range(len(wanted))))
    return positional.select(
        *(
            sf.col(f"c{position}").cast(kind).alias(field.name)
            for position, (kind, field) in enumerate(zip(wanted, df.schema, strict=True))
        )
    )


def _nullable(kind: DataType, *, is_inside: bool = False) -> DataType:
    from pyspark.sql import types

    if isinstance(kind, types.StructType):
        return types.StructType(
            [types.StructField(field.name, _nullable(field.dataType, is_inside=True)) for field in kind]
        )
    if isinstance(kind, types.ArrayType):
        return types.ArrayType(_nullable(kind.elementType, is_inside=True))
    if isinstance(kind, types.MapType):
        return types.MapType(
            _nullable(kind.keyType, is_inside=True), _nullable(kind.valueType, is_inside=True)
        )
    # `map()` and `array()` have the type void, and Arrow has no maps of it.
    return types.StringType() if is_inside and isinstance(kind, types.NullType) else kind
