"""Each parameter that a procedure of Apache Hudi has is one of hudisql's procedure, in the same place."""

from __future__ import annotations

import re

import pytest

from hudisql.procedures.registry import load_procedures
from hudisql.sql import procedure_call  # noqa: F401 (declares the procedures of `sql`)
from tests.oracle.client import HudiOracle

pytestmark = [pytest.mark.oracle, pytest.mark.spark]


def parameters_of_hudi(oracle: HudiOracle) -> dict[str, list[str]]:
    """The parameters of each procedure that both have, as CALL help lists them."""
    (listed,) = oracle.sql("call help")["result"].to_pylist()
    names = load_procedures().keys() & set(re.findall(r"^\t(\w+)\t", listed, re.MULTILINE))
    found = {}
    for name in sorted(names):
        (text,) = oracle.sql(f"call help(cmd => '{name}')")["result"].to_pylist()
        declared = text.partition("outputType:")[0]
        found[name] = re.findall(r"^\t(\w+) ", declared, re.MULTILINE)[1:]
    return found


def ours(name: str) -> list[str]:
    return [parameter.name for parameter in load_procedures()[name].parameters]


def test_no_named_argument_of_hudi_015_is_unknown(oracle_015: HudiOracle) -> None:
    theirs = parameters_of_hudi(oracle_015)
    assert len(theirs) > 30
    unknown = {name: [each for each in found if each not in ours(name)] for name, found in theirs.items()}
    assert {name: found for name, found in unknown.items() if found} == {}


def test_positional_arguments_of_hudi_12_mean_the_same(oracle_120: HudiOracle) -> None:
    theirs = parameters_of_hudi(oracle_120)
    assert len(theirs) > 40
    others = {name: found for name, found in theirs.items() if ours(name)[: len(found)] != found}
    assert others == {}
