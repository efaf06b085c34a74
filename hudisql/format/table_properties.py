"""`hoodie.properties`: the configuration a table carries, as text and with typed views.

Follows `HoodieTableConfig` of Hudi 0.15 and 1.2, and the text form of `java.util.Properties`. Knows the keys
of a table, neither timelines nor data.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from hudisql.errors import CorruptTableError, NoSuchPathError, NoSuchTableError, UnsupportedTableError
from hudisql.format.log_file.change_log_mode import ChangeLogMode
from hudisql.format.payload_classes import COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING, payload_rule
from hudisql.format.schema.sized_text import SizedText, parse_column_lengths
from hudisql.format.timeline.timeline_layout import ARCHIVE_DIRECTORY as DEFAULT_ARCHIVE_DIRECTORY
from hudisql.format.timeline.timeline_layout import (
    DEFAULT_HISTORY_DIRECTORY,
    DEFAULT_TIMELINE_DIRECTORY,
    METADATA_DIRECTORY,
)
from hudisql.storage import Storage, join

PROPERTIES_FILE = f"{METADATA_DIRECTORY}/hoodie.properties"
PROPERTIES_BACKUP_FILE = f"{PROPERTIES_FILE}.backup"

COPY_ON_WRITE = "COPY_ON_WRITE"
MERGE_ON_READ = "MERGE_ON_READ"

# The size of the cache by file content: each statement reads its table's file several times.
_MOST_PROPERTIES: Final = 1024

NAME = "hoodie.table.name"
DATABASE_NAME = "hoodie.database.name"
TYPE = "hoodie.table.type"
VERSION = "hoodie.table.version"
WRITE_VERSION = "hoodie.write.table.version"
"""The writers' setting for the version of new tables."""
INITIAL_VERSION = "hoodie.table.initial.version"
CHECKSUM = "hoodie.table.checksum"
RECORD_KEY_FIELDS = "hoodie.table.recordkey.fields"
PARTITION_FIELDS = "hoodie.table.partition.fields"
PRECOMBINE_FIELD = "hoodie.table.precombine.field"
ORDERING_FIELDS = "hoodie.table.ordering.fields"
CREATE_SCHEMA = "hoodie.table.create.schema"
BASE_FILE_FORMAT = "hoodie.table.base.file.format"
KEY_GENERATOR_CLASS = "hoodie.table.keygenerator.class"
KEY_GENERATOR_TYPE = "hoodie.table.keygenerator.type"
KEY_GENERATOR_PREFIXES = ("hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.timebased.")
"""The prefixes of the settings of timestamp-based key generators, in current and earlier versions of Hudi."""
TIMELINE_TIMEZONE = "hoodie.table.timeline.timezone"
TIMELINE_LAYOUT_VERSION = "hoodie.timeline.layout.version"
TIMELINE_DIRECTORY = "hoodie.timeline.path"
HISTORY_DIRECTORY = "hoodie.timeline.history.path"
TABLE_FORMAT = "hoodie.table.format"
SEVERAL_BASE_FILE_FORMATS = "hoodie.table.multiple.base.file.formats.enable"
RECORD_MERGE_MODE = "hoodie.record.merge.mode"
PARTIAL_UPDATE_MODE = "hoodie.table.partial.update.mode"
IGNORE_DEFAULTS = "IGNORE_DEFAULTS"
FILL_UNAVAILABLE = "FILL_UNAVAILABLE"
DELETE_FIELD = "hoodie.payload.delete.field"
DELETE_MARKER = "hoodie.payload.delete.marker"
MERGE_PROPERTY_PREFIX = "hoodie.record.merge.property."
"""The prefix of a table's record merger properties in table version 9."""
ARCHIVE_DIRECTORY = "hoodie.archivelog.folder"
INDEX_DEFINITIONS_PATH = "hoodie.table.index.defs.path"
"""Names the file of index definitions, relative to the base path."""
METADATA_PARTITIONS = "hoodie.table.metadata.partitions"
METADATA_PARTITIONS_INFLIGHT = "hoodie.table.metadata.partitions.inflight"
POPULATE_META_FIELDS = "hoodie.populate.meta.fields"
PAYLOAD_CLASS = "hoodie.compaction.payload.class"
LEGACY_PAYLOAD_CLASS = "hoodie.table.legacy.payload.class"
"""The payload class that a table had before version 9, which merges rows by `RECORD_MERGE_MODE`."""
MERGER_STRATEGY = "hoodie.compaction.record.merger.strategy"
HIVE_STYLE_PARTITIONING = "hoodie.datasource.write.hive_style_partitioning"
URL_ENCODE_PARTITIONING = "hoodie.datasource.write.partitionpath.urlencode"
DROP_PARTITION_COLUMNS = "hoodie.datasource.write.drop.partition.columns"
PARTITION_METAFILE_USE_BASE_FORMAT = "hoodie.partition.metafile.use.base.format"
CDC_ENABLED = "hoodie.table.cdc.enabled"
CDC_MODE = "hoodie.table.cdc.supplemental.logging.mode"
BOOTSTRAP_BASE_PATH = "hoodie.bootstrap.base.path"
BOOTSTRAP_INDEX_CLASS = "hoodie.bootstrap.index.class"
BOOTSTRAP_INDEX_TYPE = "hoodie.bootstrap.index.type"

UNSAFE_TYPES = "hudisql.bootstrap.unsafe.types"
"""A key of hudisql's own: columns of incompatible physical types that a bootstrap accepted."""
BOOTSTRAP_SOURCE_DIRECTORIES = "hudisql.bootstrap.source.directories"
"""A key of hudisql's own: source directories outside of the bootstrap base path, as JSON."""
BOOTSTRAP_SOURCE_TABLE = "hudisql.bootstrap.source.table"
"""A key of hudisql's own: the metastore's table (database.name) that was bootstrapped, if it was one."""
BOOTSTRAP_PARTITION_FILTER = "hudisql.bootstrap.partition.filter"
"""A key of hudisql's own: the `partition_filter` of the bootstrap, if it had one."""
BOOTSTRAP_SOURCE_KIND = "hudisql.bootstrap.source.kind"
"""A key of hudisql's own: the kind of the bootstrapped table if it was not parquet, as "an ORC table"."""
BOOTSTRAP_IGNORE = "hudisql.bootstrap.ignore"
"""A key of hudisql's own: the patterns of file names that the bootstrap left out, with commas."""
REGISTER_ONLY = "hudisql.bootstrap.register.only"
"""A key of hudisql's own: true if the table was made with register-only partitions."""
COLUMN_LENGTHS = "hudisql.column.lengths"
"""A key of hudisql's own: the lengths of columns that are declared VARCHAR(n) or CHAR(n), as JSON."""
MERGE_STRATEGY_ID = "hoodie.record.merge.strategy.id"
HFILE_BOOTSTRAP_INDEX = "org.apache.hudi.common.bootstrap.index.hfile.HFileBootstrapIndex"


@dataclass(frozen=True)
class TableProperties:
    """A table's properties, in the order of the file, with typed views of those that hudisql uses."""

    values: Mapping[str, str]

    def get(self, key: str, default: str | None = None) -> str | None:
        """The value of a key, or `default`."""
        return self.values.get(key, default)

    @property
    def name(self) -> str:
        """The table's name as its creator gave it (the metastore's may differ)."""
        return self.values.get(NAME, "")

    @property
    def database_name(self) -> str | None:
        """The database the creator gave, if any."""
        return self.values.get(DATABASE_NAME) or None

    @property
    def table_type(self) -> str:
        """`COPY_ON_WRITE` or `MERGE_ON_READ`."""
        return self.values.get(TYPE, COPY_ON_WRITE)

    @property
    def version(self) -> int:
        """The table version; 6 is Hudi 0.14 and 0.15. Raises CorruptTableError if it is not a number."""
        text = self.values.get(VERSION, "0")
        if not text.strip().isdigit():
            raise CorruptTableError(f"{VERSION} is not a number: '{text}'")
        return int(text)

    @property
    def record_key_fields(self) -> tuple[str, ...]:
        """Columns that make the record key; empty if the table's record keys are generated."""
        return self._fields(RECORD_KEY_FIELDS)

    @property
    def generates_record_keys(self) -> bool:
        """True if no columns make the record key: each new row gets a generated one (Hudi 0.14 and later)."""
        return not self.record_key_fields

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """Partition columns from the outermost directory inwards; empty if the table is not partitioned."""
        # A custom key generator may add the kind of each field, as in `dt:SIMPLE`.
        return tuple(name.split(":", 1)[0] for name in self._fields(PARTITION_FIELDS))

    @property
    def precombine_field(self) -> str | None:
        """The ordering column (1.x writers name it `ordering.fields` in version 6 tables too)."""
        return self.values.get(PRECOMBINE_FIELD) or self.values.get(ORDERING_FIELDS) or None

    @property
    def ordering_fields(self) -> tuple[str, ...]:
        """The ordering columns, in the order in which they are compared."""
        return self._fields(PRECOMBINE_FIELD) or self._fields(ORDERING_FIELDS)

    @property
    def column_lengths(self) -> Mapping[str, SizedText]:
        """The type of each column that is declared VARCHAR(n) or CHAR(n). Raises CorruptTableError."""
        return parse_column_lengths(self.values.get(COLUMN_LENGTHS) or "{}", COLUMN_LENGTHS)

    @property
    def table_format(self) -> str:
        """The table format in lower case: `native` is Hudi's own."""
        return (self.values.get(TABLE_FORMAT) or "native").lower()

    @property
    def record_merge_mode(self) -> str | None:
        """`COMMIT_TIME_ORDERING`, `EVENT_TIME_ORDERING` or `CUSTOM`; None in tables of version 6."""
        return (self.values.get(RECORD_MERGE_MODE) or "").upper() or None

    @property
    def keeps_later_event_times(self) -> bool:
        """True if a stored row stays when an incoming row has a lower ordering value."""
        if self.version < 8:
            rule = payload_rule(self.payload_class)
            return rule is not None and rule.by_event_time
        mode = self.record_merge_mode
        return mode == EVENT_TIME_ORDERING or (mode is None and bool(self.ordering_fields))

    @property
    def effective_merge_mode(self) -> str:
        """The merge mode of Hudi 1.x that says which row of a key stays, also for tables of version 6."""
        return EVENT_TIME_ORDERING if self.keeps_later_event_times else COMMIT_TIME_ORDERING

    @property
    def partial_update_mode(self) -> str | None:
        """`IGNORE_DEFAULTS` or `FILL_UNAVAILABLE`; None if every row replaces all columns.

        Only tables of version 9 have one.
        """
        return (self.values.get(PARTIAL_UPDATE_MODE) or "").upper() or None if self.version >= 9 else None

    def merge_property(self, name: str) -> str | None:
        """A setting of the record merger: version 9 has its own prefix for them, earlier ones have none."""
        return self.values.get(MERGE_PROPERTY_PREFIX + name) or self.values.get(name)

    @property
    def create_schema(self) -> str | None:
        """The Avro schema (JSON text) that CREATE TABLE stored, if any."""
        return self.values.get(CREATE_SCHEMA) or None

    @property
    def base_file_format(self) -> str:
        """Upper-case name of the base files' format."""
        return self.values.get(BASE_FILE_FORMAT, "PARQUET").upper()

    @property
    def has_several_base_file_formats(self) -> bool:
        """True if the base files of a table may be of different formats."""
        return self._flag(SEVERAL_BASE_FILE_FORMATS, False)

    @property
    def bootstrap_base_path(self) -> str | None:
        """Where the external files lie, exactly as stored; None if the table is not bootstrapped."""
        return self.values.get(BOOTSTRAP_BASE_PATH) or None

    @property
    def bootstrap_source_kind(self) -> str | None:
        """What the source is, if only Spark reads its files; None for parquet files."""
        return self.values.get(BOOTSTRAP_SOURCE_KIND) or None

    @property
    def bootstrap_ignore(self) -> tuple[str, ...]:
        """The patterns of file names that are no data files of the bootstrap's source."""
        return tuple(filter(None, self.values.get(BOOTSTRAP_IGNORE, "").split(",")))

    @property
    def bootstrap_index_class(self) -> str:
        """Java class of the bootstrap index."""
        return self.values.get(BOOTSTRAP_INDEX_CLASS, HFILE_BOOTSTRAP_INDEX)

    @property
    def hive_style_partitioning(self) -> bool:
        """True if partition directories are named `column=value`."""
        return self._flag(HIVE_STYLE_PARTITIONING, False)

    @property
    def url_encode_partitioning(self) -> bool:
        """True if partition values are escaped (`%3A`) in directory names."""
        return self._flag(URL_ENCODE_PARTITIONING, False)

    @property
    def drop_partition_columns(self) -> bool:
        """True if base files lack the partition columns."""
        return self._flag(DROP_PARTITION_COLUMNS, False)

    @property
    def partition_metafile_use_base_format(self) -> bool:
        """True if `.hoodie_partition_metadata` is written as a parquet file."""
        return self._flag(PARTITION_METAFILE_USE_BASE_FORMAT, False)

    @property
    def populate_meta_fields(self) -> bool:
        """False if rows carry no `_hoodie_*` columns."""
        return self._flag(POPULATE_META_FIELDS, True)

    @property
    def cdc_enabled(self) -> bool:
        """True if writers log changes beside the data."""
        return self._flag(CDC_ENABLED, False)

    @property
    def change_log_mode(self) -> ChangeLogMode | None:
        """What change logs hold; None for a table without them. Raises UnsupportedTableError."""
        if not self.cdc_enabled:
            return None
        text = self.values.get(CDC_MODE, ChangeLogMode.DATA_BEFORE_AFTER)
        if text.upper() not in ChangeLogMode.__members__:
            raise UnsupportedTableError(f"{CDC_MODE} = {text} is unknown; it is {', '.join(ChangeLogMode)}")
        return ChangeLogMode(text.upper())

    @property
    def key_generator_class(self) -> str | None:
        """Java class that made record keys and partition paths."""
        return self.values.get(KEY_GENERATOR_CLASS) or None

    @property
    def key_generator_type(self) -> str | None:
        """Short name of the key generator (`SIMPLE`, `TIMESTAMP` …), which 1.x writers note instead."""
        return (self.values.get(KEY_GENERATOR_TYPE) or "").upper() or None

    @property
    def timeline_timezone(self) -> str:
        """`UTC` or `LOCAL`: the zone of instant times."""
        return self.values.get(TIMELINE_TIMEZONE, "LOCAL").upper()

    @property
    def timeline_layout_version(self) -> int:
        """1 for table version 6, 2 for 8 and 9."""
        return int(self.values.get(TIMELINE_LAYOUT_VERSION, "1" if self.version < 8 else "2"))

    @property
    def timeline_directory(self) -> str:
        """Directory of the timeline of layout 2, relative to `.hoodie`."""
        return self.values.get(TIMELINE_DIRECTORY) or DEFAULT_TIMELINE_DIRECTORY

    @property
    def history_directory(self) -> str:
        """Directory of the archived instants of layout 2, relative to the timeline's."""
        return self.values.get(HISTORY_DIRECTORY) or DEFAULT_HISTORY_DIRECTORY

    @property
    def archive_directory(self) -> str:
        """Directory of archived instants, relative to `.hoodie`."""
        return self.values.get(ARCHIVE_DIRECTORY) or DEFAULT_ARCHIVE_DIRECTORY

    @property
    def metadata_partitions(self) -> tuple[str, ...]:
        """Partitions of the metadata table that readers may trust; empty without one."""
        return self._fields(METADATA_PARTITIONS)

    @property
    def payload_class(self) -> str | None:
        """Java class of the record payload (merge-on-read tables)."""
        return self.values.get(PAYLOAD_CLASS) or None

    @property
    def unsafe_types(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the incompatibilities of each column that a bootstrap accepted."""
        entries = (entry.partition("=") for entry in self.values.get(UNSAFE_TYPES, "").split(";"))
        return {column: tuple(names.split(",")) for column, equals, names in entries if equals}

    @property
    def has_register_only_partitions(self) -> bool:
        """True if a bootstrap left partitions in the source, without a Hudi file."""
        return self._flag(REGISTER_ONLY, False)

    @property
    def source_directories(self) -> tuple[str, ...]:
        """The directories that hold a bootstrapped table's source files; empty for other tables.

        Rows of a source that only Spark reads were all rewritten: nothing protects its files.
        """
        if self.bootstrap_base_path is None or self.bootstrap_source_kind is not None:
            return ()
        others = json.loads(self.values.get(BOOTSTRAP_SOURCE_DIRECTORIES, "[]"))
        return (self.bootstrap_base_path, *(str(directory) for directory in others))

    def _fields(self, key: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.values.get(key, "").split(",") if part.strip())

    def _flag(self, key: str, default: bool) -> bool:
        return self.values.get(key, str(default)).strip().lower() == "true"


def read_table_properties(storage: Storage, base_path: str) -> TableProperties:
    """Read the properties of the table at `base_path`.

    An update writes `hoodie.properties.backup` first; the backup is read if the file is missing or cut short.
    Raises NoSuchTableError if both are missing, CorruptTableError if both are damaged, StorageError.
    """
    found = False
    # The properties are read again last: an update may have restored them and deleted the backup meanwhile.
    for file in (PROPERTIES_FILE, PROPERTIES_BACKUP_FILE, PROPERTIES_FILE):
        try:
            properties = _properties_of(storage.read(join(base_path, file)))
        except NoSuchPathError:
            continue
        found = True
        if properties is not None:
            return properties
    if found:
        raise CorruptTableError(
            f"{join(base_path, PROPERTIES_FILE)} is cut short or fails its checksum, and has no whole backup",
            hint="restore the file, or let a writer of this table recover it",
        )
    raise NoSuchTableError(
        f"no Hudi table at {base_path}: there is no {PROPERTIES_FILE}", hint="check the path"
    )


@lru_cache(_MOST_PROPERTIES)
def _properties_of(content: bytes) -> TableProperties | None:
    """The properties in a file; None if it was cut short."""
    values = parse_properties(content)
    return TableProperties(values) if _is_whole(values) else None


def read_whole_file(storage: Storage, path: str) -> bytes | None:
    """The content of a properties file; None if it is missing or was cut short. Raises StorageError."""
    try:
        content = storage.read(path)
    except NoSuchPathError:
        return None
    return content if _is_whole(parse_properties(content)) else None


def table_checksum(database: str | None, name: str) -> int:
    """The checksum that Hudi stores for a table's identity: CRC32 of `<database>.<name>`."""
    return zlib.crc32(f"{database or ''}.{name}".encode())


def render_table_properties(values: Mapping[str, str], now: datetime) -> bytes:
    """The content of `hoodie.properties`: `values` in their order, with a fresh checksum."""
    written = dict(values)
    written[CHECKSUM] = str(table_checksum(values.get(DATABASE_NAME), values.get(NAME, "")))
    moment = now.astimezone(UTC)
    return render_properties(written, f"Properties saved on {moment:%Y-%m-%dT%H:%M:%S.%f}Z", moment)


def render_properties(values: Mapping[str, str], comment: str, now: datetime) -> bytes:
    """Text of `java.util.Properties.store`: the comment, the date, then `key=value` lines."""
    lines = [f"#{comment}", f"#{_java_date(now)}"]
    lines += [f"{_escape(key, is_key=True)}={_escape(value)}" for key, value in values.items()]
    return ("\n".join(lines) + "\n").encode("latin-1")


def parse_properties(content: bytes) -> dict[str, str]:
    """Read the text form of `java.util.Properties` (escapes, continued lines, `=`, `:` or blank between)."""
    values: dict[str, str] = {}
    for line in _logical_lines(content.decode("latin-1")):
        matched = _KEY_AND_VALUE.match(line)
        if matched:
            values[_unescape(matched[1])] = _unescape(matched[2])
    return values


_KEY_AND_VALUE = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LETTER_ESCAPES = {char: "\\" + letter for letter, char in _ESCAPED_LETTERS.items()}


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    continued = ""
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if not continued and (not line or line[0] in "#!"):
            continue
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            continued += line[:-1]
            continue
        lines.append(continued + line)
        continued = ""
    if continued:
        lines.append(continued)
    return lines


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    unescaped = _ESCAPE.sub(_unescape_one, text)
    # Characters beyond the basic plane are written as two surrogates.
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape_one(matched: re.Match[str]) -> str:
    code = matched[1]
    if len(code) == 5:
        return chr(int(code[1:], 16))
    return _ESCAPED_LETTERS.get(code, code)


def _escape(text: str, *, is_key: bool = False) -> str:
    parts: list[str] = []
    for position, char in enumerate(text):
        if char == " ":
            parts.append("\\ " if is_key or position == 0 else " ")
        elif char in "\\=:#!":
            parts.append("\\" + char)
        elif char in _LETTER_ESCAPES:
            parts.append(_LETTER_ESCAPES[char])
        elif " " < char <= "~":
            parts.append(char)
        else:
            units = char.encode("utf-16-be")
            parts += [f"\\u{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2)]
    return "".join(parts)


def _is_whole(values: Mapping[str, str]) -> bool:
    if NAME not in values:
        return False
    checksum = values.get(CHECKSUM)
    return checksum is None or checksum == str(table_checksum(values.get(DATABASE_NAME), values[NAME]))


def _java_date(now: datetime) -> str:
    # java.util.Date.toString: English names whatever the process's locale is.
    moment = now.astimezone(UTC)
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[moment.weekday()]
    months = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    return f"{day} {months[moment.month - 1]} {moment:%d %H:%M:%S} UTC {moment.year}"
