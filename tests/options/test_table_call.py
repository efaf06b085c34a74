"""What procedures of table services look up: the texts of their options, and which setting counts."""

from __future__ import annotations

import pytest

from hudisql.config.config_key import HudiConfig
from hudisql.config.table_service_keys import MAX_DELTA_COMMITS
from hudisql.errors import InvalidArgumentError
from hudisql.options.table_call import parse_options


def test_options_are_pairs_separated_by_commas() -> None:
    assert parse_options(" a.b = 1 ,c=x=y,, ") == {"a.b": "1", "c": "x=y"}
    assert parse_options(None) == {}
    with pytest.raises(InvalidArgumentError, match="key=value pairs, not 'nonsense'"):
        parse_options("a=1,nonsense")


def test_settings_of_a_call_hold_before_those_of_the_session() -> None:
    session = {MAX_DELTA_COMMITS.name: "7"}
    config = HudiConfig(lambda name, default: session.get(name, default))
    assert config.under({}).get(MAX_DELTA_COMMITS) == 7
    assert config.under({MAX_DELTA_COMMITS.name: "2"}).get(MAX_DELTA_COMMITS) == 2
    assert MAX_DELTA_COMMITS.default_value == 5
