"""The one loader of settings: defaults < hudisql.toml < HUDISQL_* < command line, each with its origin.

`Settings` is an immutable value with the origin of each part; `SETTINGS` declares them once, and the command
line, `hudisql config` and the docs read that declaration. HUDISQL_CONFIG names the file `hudisql.toml`; by
default it is searched in the working directory, then in the user's configuration directory. Knows no Spark.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from hudisql.config.config_key import split_names
from hudisql.errors import SettingsError, hide_credentials

ENVIRONMENT_PREFIX: Final = "HUDISQL_"
OUTPUT_FORMATS: Final[Mapping[str, str]] = {
    "table": "columns between lines, for people; long texts wrap; at a terminal, what is too wide is shown "
    "as `vertical`, and the text NULL has quotes",
    "csv": 'a line of names, then a line a row; NULL is an empty field, the empty text is `""`',
    "tsv": "a line of names, then a line a row; NULL is `\\N`; tab, line feed, carriage return and `\\` are "
    "escaped by `\\`",
    "json": "one array of objects for each statement",
    "jsonl": "an object a line; a statement without rows prints nothing",
    "vertical": "a column a line, for wide rows",
}
_SECRET_WORDS = r"pass|pwd|secret|token|credential|(?:access|account|api|private)[._-]?key"
_SECRET_NAME = re.compile(_SECRET_WORDS, re.IGNORECASE)
# In values: `-Djavax.net.ssl.trustStorePassword=…`, `jdbc:…?password=…`.
_SECRET_IN_VALUE = re.compile(rf"((?:{_SECRET_WORDS})[\w.-]*=)[^\s&;,]+", re.IGNORECASE)
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True)
class SettingDeclaration:
    """One setting: `type` is string, boolean, choice or map; maps merge key by key over the layers."""

    name: str
    type: str
    help: str
    choices: tuple[str, ...] = ()


SETTINGS: Final = (
    SettingDeclaration(
        "metastore", "string", "Hive Metastore URIs, thrift://host:port[,…]; empty: the embedded one"
    ),
    SettingDeclaration("warehouse", "string", "directory of the warehouse and of the embedded metastore"),
    SettingDeclaration("master", "string", "Spark master"),
    SettingDeclaration("database", "string", "current database at start"),
    SettingDeclaration("format", "choice", "form of the results", tuple(OUTPUT_FORMATS)),
    SettingDeclaration(
        "metastore_sasl", "boolean", "speak SASL (Kerberos) to the metastore, as hive.metastore.sasl.enabled"
    ),
    SettingDeclaration(
        "metastore_principal", "string", "the metastore's Kerberos principal, service/host@REALM"
    ),
    SettingDeclaration(
        "kerberos_keytab", "string", "keytab that hudisql and Spark log in from, instead of kinit's ticket"
    ),
    SettingDeclaration("kerberos_principal", "string", "the keytab's user: name@REALM"),
    SettingDeclaration(
        "kafka_config", "string", "file with TLS, SASL and passwords for Kafka and schema registries"
    ),
    SettingDeclaration("conf", "map", "Spark settings"),
    SettingDeclaration("hiveconf", "map", "Hive and Hadoop settings"),
    SettingDeclaration("hivevar", "map", "variables of scripts: ${name}"),
)
_DECLARED: Final = {declaration.name: declaration for declaration in SETTINGS}


@dataclass(frozen=True)
class SettingValue:
    """A setting as `hudisql config` shows it; a secret's value is masked already."""

    name: str
    value: str
    origin: str


@dataclass(frozen=True)
class Settings:
    """Every setting's value. `origins` says where each came from (`conf.<key>` for entries of maps)."""

    metastore: str = ""
    warehouse: str = "hudisql-warehouse"
    master: str = "local[*]"
    database: str = "default"
    format: str = "table"
    metastore_sasl: bool = False
    metastore_principal: str = ""
    kerberos_keytab: str = ""
    kerberos_principal: str = ""
    kafka_config: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)
    hiveconf: Mapping[str, str] = field(default_factory=dict)
    hivevar: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def metastore_uris(self) -> tuple[str, ...]:
        """The configured metastore URIs in order; empty means the embedded metastore."""
        return split_names(self.metastore)

    def with_layer(self, values: Mapping[str, Any], origin: str) -> Settings:
        """These settings, overridden by `values`; None means not given. Raises SettingsError."""
        changed: dict[str, Any] = {}
        origins = dict(self.origins)
        for name, value in values.items():
            if value is None:
                continue
            declaration = _declaration_of(name, origin)
            checked = _checked(declaration, value, origin)
            if declaration.type == "map":
                if not checked:
                    continue
                origins.update({f"{name}.{key}": origin for key in checked})
                checked = {**getattr(self, name), **checked}
            else:
                origins[name] = origin
            changed[name] = checked
        return replace(self, **changed, origins=origins)

    def described(self) -> list[SettingValue]:
        """Each setting, map entries one by one, with its origin; secrets are masked."""
        described: list[SettingValue] = []
        for declaration in SETTINGS:
            value = getattr(self, declaration.name)
            if declaration.type != "map":
                origin = self.origins.get(declaration.name, "default")
                described.append(SettingValue(declaration.name, _shown(declaration.name, value), origin))
                continue
            for key, entry in sorted(value.items()):
                name = f"{declaration.name}.{key}"
                described.append(SettingValue(name, _shown(name, entry), self.origins.get(name, "default")))
        return described


def load_settings(
    command_line: Mapping[str, Any] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    working_directory: Path | None = None,
) -> Settings:
    """Load the four layers. `command_line` holds what was given there (None: not given).

    Raises SettingsError, naming the layer, for unknown names (in the environment: for misspelt ones), bad
    values and an unreadable file.
    """
    environment = os.environ if environment is None else environment
    settings = Settings()
    path = find_settings_file(environment, working_directory or Path.cwd())
    if path is not None:
        settings = settings.with_layer(_read_settings_file(path), str(path))
    for name, meant in unknown_environment_names(environment).items():
        if meant is not None:
            raise SettingsError(f"there is no setting {name} (environment)", hint=f"did you mean {meant}?")
    for name, text in sorted(environment.items()):
        setting = name.removeprefix(ENVIRONMENT_PREFIX).lower()
        if name.startswith(ENVIRONMENT_PREFIX) and setting in _DECLARED:
            value: object = _pairs(text, name) if _DECLARED[setting].type == "map" else text
            settings = settings.with_layer({setting: value}, f"environment {name}")
    return settings.with_layer(command_line or {}, "command line")


def unknown_environment_names(environment: Mapping[str, str] | None = None) -> dict[str, str | None]:
    """HUDISQL_* variables that name no setting, each with the setting that was probably meant.

    Others may set such variables, too: Kubernetes does (HUDISQL_PORT) for a service of that name.
    """
    names = os.environ if environment is None else environment
    known = [*(name.upper() for name in _DECLARED), "CONFIG"]
    given = sorted(
        name.removeprefix(ENVIRONMENT_PREFIX) for name in names if name.startswith(ENVIRONMENT_PREFIX)
    )
    near = {
        name: difflib.get_close_matches(name, known, n=1, cutoff=0.8) for name in given if name not in known
    }
    return {
        f"{ENVIRONMENT_PREFIX}{name}": f"{ENVIRONMENT_PREFIX}{found[0]}" if found else None
        for name, found in near.items()
    }


def find_settings_file(environment: Mapping[str, str], working_directory: Path) -> Path | None:
    """The settings file in force, if any. Raises SettingsError if HUDISQL_CONFIG names no file."""
    named = environment.get(f"{ENVIRONMENT_PREFIX}CONFIG")
    if named:
        path = working_directory / Path(named).expanduser()
        if not path.is_file():
            raise SettingsError(f"HUDISQL_CONFIG names no file: {path}")
        return path
    directory = environment.get("XDG_CONFIG_HOME")
    home = environment.get("HOME")
    candidates = [working_directory / "hudisql.toml"]
    if directory or home:
        candidates.append(Path(directory or f"{home}/.config") / "hudisql" / "hudisql.toml")
    return next((path for path in candidates if path.is_file()), None)


def mask_secret(name: str, value: str) -> str:
    """`value`, or stars if the name is that of a secret; secrets within values are masked, too."""
    if _SECRET_NAME.search(name):
        return "******"
    value = _SECRET_IN_VALUE.sub(r"\1******", value)
    return hide_credentials(value)


def _shown(name: str, value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return mask_secret(name, text)


def _read_settings_file(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error
    return content


def _declaration_of(name: str, origin: str) -> SettingDeclaration:
    declaration = _DECLARED.get(name)
    if declaration is None:
        near = difflib.get_close_matches(name, _DECLARED, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"the settings are {', '.join(_DECLARED)}"
        raise SettingsError(f"{origin}: there is no setting '{name}'", hint=hint)
    return declaration


def _checked(declaration: SettingDeclaration, value: object, origin: str) -> Any:
    where = f"{origin}: setting '{declaration.name}'"
    if declaration.type == "map":
        if not isinstance(value, Mapping):
            raise SettingsError(f"{where} must be a table of key = value, not {value!r}")
        pairs = _flattened(value)
        for key, entry in pairs.items():
            _check_path(f"{where}, {key}", entry)
        return pairs
    if declaration.type == "boolean":
        text = str(value).lower()
        if text not in _TRUE | _FALSE:
            raise SettingsError(f"{where} must be true or false, not {value!r}")
        return text in _TRUE
    if not isinstance(value, str):
        raise SettingsError(f"{where} must be text, not {value!r}")
    _check_path(where, value)
    if declaration.choices and value not in declaration.choices:
        raise SettingsError(f"{where} must be one of {', '.join(declaration.choices)}, not '{value}'")
    return value


def _check_path(where: str, text: str) -> None:
    if text.startswith(("s3", "hdfs")) and hide_credentials(text) != text:
        raise SettingsError(
            f"{where}: the path {text} holds credentials, which would be stored and shown with it",
            hint="give them as fs.s3a.access.key and fs.s3a.secret.key (--conf spark.hadoop.fs.s3a.…), in "
            "core-site.xml or by the environment, and the path without them",
        )


def _flattened(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    # TOML reads `spark.ui.enabled = true` as nested tables: join the names again, as Spark writes them.
    flat: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat.update(_flattened(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = str(value).lower() if isinstance(value, bool) else str(value)
    return flat


def _pairs(text: str, name: str) -> dict[str, str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise SettingsError(f"environment {name}: {error}", hint="write it as key=value key=value") from error
    return parse_key_values(words, f"environment {name}")


def parse_key_values(words: list[str] | tuple[str, ...], origin: str) -> dict[str, str]:
    """`["a=b", "c=d=e"]` as a map. Raises SettingsError for a word without a key and `=`."""
    pairs: dict[str, str] = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or not key.strip():
            raise SettingsError(f"{origin}: '{word}' is not key=value")
        pairs[key.strip()] = value
    return pairs


# One declaration per field.
assert {setting.name for setting in fields(Settings)} - {"origins"} == set(_DECLARED)
