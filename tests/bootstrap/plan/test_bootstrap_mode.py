"""Which partitions a request rewrites: mode, regex selector, and words that make no choice."""

import pytest

from hudisql.bootstrap.plan.bootstrap_mode import (
    FULL_RECORD_SELECTOR,
    METADATA_ONLY_SELECTOR,
    REGEX_MODE_OPTION,
    REGEX_OPTION,
    REGEX_SELECTOR,
    SELECTOR_OPTION,
    BootstrapMode,
    ModeChoice,
    choose_mode,
    mode_choice_from_options,
)
from hudisql.bootstrap.plan.request import BootstrapRequest, apply_options
from hudisql.errors import InvalidArgumentError

METADATA, FULL = BootstrapMode.METADATA_ONLY, BootstrapMode.FULL_RECORD
PATHS = ["dt=2024-03-01", "dt=2024-03-02", "dt=2024-03-011"]


def test_a_mode_is_taken_in_any_case_and_holds_for_all_partitions():
    assert choose_mode("FULL_Record ", None).of_paths(PATHS) == [FULL] * 3
    assert choose_mode("metadata_only", "dt > '1'") == ModeChoice(METADATA, where="dt > '1'")
    with pytest.raises(InvalidArgumentError, match="mode 'fast' is unknown"):
        choose_mode("fast", None)
    with pytest.raises(InvalidArgumentError, match="leave one of them out"):
        choose_mode("full_record", "dt > '1'")


def test_a_regex_must_match_the_whole_path_and_the_others_take_the_other_mode():
    options = {SELECTOR_OPTION: REGEX_SELECTOR, REGEX_OPTION: "dt=2024-03-0[12]"}
    assert mode_choice_from_options(options).of_paths(PATHS) == [METADATA, METADATA, FULL]
    options[REGEX_MODE_OPTION] = "FULL_RECORD"
    assert mode_choice_from_options(options).of_paths(PATHS) == [FULL, FULL, METADATA]
    assert mode_choice_from_options({SELECTOR_OPTION: REGEX_SELECTOR}).of_paths(PATHS) == [METADATA] * 3


def test_hudis_other_selectors_take_all_partitions():
    assert mode_choice_from_options({SELECTOR_OPTION: FULL_RECORD_SELECTOR}) == ModeChoice(FULL)
    assert mode_choice_from_options({SELECTOR_OPTION: METADATA_ONLY_SELECTOR}) == ModeChoice(METADATA)
    assert mode_choice_from_options({}) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({SELECTOR_OPTION: "my.Selector"}, "selector 'my.Selector' is unknown"),
        ({REGEX_OPTION: ".*"}, "needs the regex selector"),
        ({SELECTOR_OPTION: REGEX_SELECTOR, REGEX_OPTION: "["}, "not a regular expression"),
        ({SELECTOR_OPTION: REGEX_SELECTOR, REGEX_MODE_OPTION: "HALF"}, "mode 'HALF' is unknown"),
    ],
)
def test_options_that_make_no_choice_are_refused(options, words):
    with pytest.raises(InvalidArgumentError, match=words):
        mode_choice_from_options(options)


def test_selector_options_fill_in_the_mode_unless_it_was_given():
    request = BootstrapRequest(
        database="db",
        name="t",
        record_key=("id",),
        source_path="/s",
        options={
            SELECTOR_OPTION: FULL_RECORD_SELECTOR,
            "hoodie.parquet.max.file.size": "1000",
            "hoodie.bulkinsert.sort.mode": "none",
            "hoodie.parquet.compression.codec": "UNCOMPRESSED",
        },
    )
    applied, findings = apply_options(request, frozenset())
    assert applied.mode == ModeChoice(FULL)
    assert (applied.max_file_bytes, applied.sort_mode, applied.codec) == (1000, "NONE", "none")
    assert findings == ()
    assert apply_options(request, frozenset({"mode"}))[0].mode == ModeChoice(METADATA)
