"""The order of models, the choice of some, and which tests stand before which models."""

from __future__ import annotations

import threading
import time

import pytest

from hudisql.errors import InvalidArgumentError
from hudisql.layers.lineage import Lineage, waits_for_tests
from hudisql.layers.lineage_picture import lineage_picture
from hudisql.layers.schedule import Piece, Schedule

SHOP = Lineage(
    {
        "ads.top": ("dws.days",),
        "dws.days": ("dwd.items",),
        "dwd.items": ("ods.orders", "ods.lines"),
        "dwd.people": ("ods.people",),
        "ads.people": ("dwd.people", "dws.days"),
    }
)


def test_models_come_behind_what_they_read() -> None:
    order = SHOP.order
    for name, reads in SHOP.reads.items():
        assert all(order.index(each) < order.index(name) for each in reads if each in SHOP.reads)
    assert len(order) == 5


def test_a_cycle_is_refused_with_its_path() -> None:
    with pytest.raises(
        InvalidArgumentError,
        match=r"a cycle: (d\.a → d\.b → d\.c → d\.a|d\.b → d\.c → d\.a → d\.b|"
        r"d\.c → d\.a → d\.b → d\.c) ",
    ):
        _ = Lineage({"d.a": ["d.c"], "d.b": ["d.a"], "d.c": ["d.b", "x"], "d.d": []}).order
    with pytest.raises(InvalidArgumentError, match=r"d\.a → d\.a "):
        _ = Lineage({"d.a": ["d.a"]}).order


@pytest.mark.parametrize(
    ("selections", "chosen"),
    [
        ([], set(SHOP.reads)),
        (["items"], {"dwd.items"}),
        (["DWD.Items+"], {"dwd.items", "dws.days", "ads.top", "ads.people"}),
        (["+ads.top"], {"dwd.items", "dws.days", "ads.top"}),
        (["+dws.days+"], {"dwd.items", "dws.days", "ads.top", "ads.people"}),
        (["dwd.*", "top"], {"dwd.items", "dwd.people", "ads.top"}),
    ],
)
def test_select(selections: list[str], chosen: set[str]) -> None:
    found = SHOP.select(selections)
    assert set(found) == chosen
    assert list(found) == [name for name in SHOP.order if name in chosen]


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ("nothing", "matches no model"),
        ("people", "matches ads.people and dwd.people"),
        ("ods.orders", "matches no"),
    ],
)
def test_a_selection_that_means_no_single_model_is_refused(selection: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        SHOP.select([selection])


def test_a_model_waits_for_the_tests_of_what_it_depends_on_and_for_no_other() -> None:
    tests = {
        "items": ["dwd.items", "ods.orders"],
        "both": ["dws.days", "dwd.people"],
        "source": ["ods.orders"],
    }
    before = waits_for_tests(SHOP, tests)
    assert before == {
        "dwd.items": set(),
        "dwd.people": set(),
        "dws.days": {"items"},
        "ads.top": {"items"},
        "ads.people": {"items", "both"},
    }


def test_a_picture_has_what_a_table_is_made_of_and_what_is_made_of_it() -> None:
    picture = lineage_picture(SHOP, "dwd.items", lambda name: f"{name}.html")
    for name in ("ods.orders", "ods.lines", "dwd.items", "dws.days", "ads.top", "ads.people"):
        assert f">{name}</text>" in picture
        assert f'href="{name}.html"' in picture
    # What is beside it is on the pages of others.
    assert "ods.people" not in picture
    assert picture.count('marker-end="url(#arrow)"') == 5
    assert 'id="arrow"' in picture
    assert "ods.people" in lineage_picture(SHOP, None, str)


def pieces(*names: str) -> list[Piece]:
    return [("model", name) for name in names]


def test_independent_pieces_run_side_by_side_and_no_more_than_allowed() -> None:
    running, most, met = 0, 0, threading.Barrier(2)
    lock = threading.Lock()

    def work(_: Piece) -> bool:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        met.wait(10)
        with lock:
            running -= 1
        return True

    needs: dict[Piece, list[Piece]] = {each: [] for each in pieces("a", "b", "c", "d")}
    assert Schedule(needs, work, lambda *_: None, 2, lambda: False).run()
    assert most == 2


def test_a_failure_skips_what_needs_it_and_nothing_else() -> None:
    a, b, c, d = pieces("a", "b", "c", "d")
    ran: list[Piece] = []
    skipped: list[tuple[Piece, Piece]] = []

    def work(piece: Piece) -> bool:
        ran.append(piece)
        return piece != a

    schedule = Schedule(
        {a: [], b: [a], c: [b], d: []}, work, lambda *both: skipped.append(both), 1, lambda: False
    )
    assert not schedule.run()
    assert ran == [a, d]
    assert skipped == [(b, a), (c, b)]


def test_a_stop_lets_end_what_runs_and_begins_nothing() -> None:
    stop = threading.Event()
    ran: list[Piece] = []

    def work(piece: Piece) -> bool:
        stop.set()
        time.sleep(0.01)
        ran.append(piece)
        return True

    a, b = pieces("a", "b")
    assert not Schedule({a: [], b: [a]}, work, lambda *_: None, 2, stop.is_set).run()
    assert ran == [a]
