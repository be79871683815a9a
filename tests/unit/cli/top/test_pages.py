"""What a page shows: text that is only text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from rich.text import Text

from halfhitch_cli.selection import Filters
from halfhitch_cli.top import pages
from halfhitch_cli.top.looking import Look, Wish
from halfhitch_cli.top.numbers import Numbers, Pace
from halfhitch_cli.top.pages import Sort
from harness.fake_operations import parked, undecided
from harness.scripted_admin import PARTITION, STATUS

HOSTILE = "[red]x[/red]\x1b[2J\x07\u202ey\n[link=http://evil]"


def look(page: str = "overview", rows: list[Any] | None = None, **more: Any) -> Look:
    found = Look(Wish(page), 0.0, status=STATUS, rows=rows or [], total_count=len(rows or []))
    for name, value in more.items():
        setattr(found, name, value)
    return found


def pending(name: str, **more: Any) -> dict[str, Any]:
    return asdict(undecided(name, **more))


def given_up(name: str, **more: Any) -> dict[str, Any]:
    return asdict(parked(name, **more))


def plain(text: Text) -> str:
    assert isinstance(text, Text)
    return text.plain


# -- the overview --------------------------------------------------------------------------------


def test_the_overview_says_state_numbers_and_the_oldest() -> None:
    alone = {"producer_group": "bank", "undecided_count": 7, "link_count": 0, "elsewhere": []}
    rows = [pending("T1", next_check_s=None), pending("T2")]
    pace = Pace()
    for at_s in (1.0, 2.0):
        pace.feed(Numbers(at_s, {"prepared": 10 * at_s}, {("orders", "3"): 12.0}, {}))
    numbers = Numbers(2.0, {}, {}, {})
    told = plain(
        pages.overview(look(rows=rows, parked_count=3, groups=[alone], numbers=numbers), pace, 80)
    )
    for wanted in (
        "State          ready", "2, the oldest for 1m35s", "Parked         3",
        "for 7 transactions of 1 group", "LSO lag        12 records: orders/3 12",
        "prepared               10.0  █", "1m35s  3/15  T1  shop  no producer", "shop-1",
    ):  # fmt: skip
        assert wanted in told


def test_what_is_wrong_is_said_in_words() -> None:
    bad = {**STATUS, "ready": False, "reasons": ["Kafka is away"]}
    assert "not ready: Kafka is away" in plain(pages.overview(look(status=bad), Pace(), 80))
    partition = {**PARTITION, "trouble": "stuck", "waiting_count": 4}
    slow = {**STATUS, "degraded": ["Redis is away"], "partitions": [partition, partition]}
    failures = {"undecided": "no U", "parked": "no P", "groups": "no G", "metrics": "no M"}
    told = plain(
        pages.overview(look(status=slow, failures=failures, missing_partitions=[1]), Pace(), 80)
    )
    for wanted in ("degraded", "Redis is away", "8 for a topic that is away", "no U", "no P"):
        assert wanted in told
    assert "no G" in told
    assert "LSO lag        no M" in told
    assert told.count("stuck") == 1
    assert "half partitions 1 are other instances'" in told


def test_an_empty_one_says_so() -> None:
    told = plain(pages.overview(look(parked_count=0), Pace(), 80))
    assert "Undecided      none" in told
    assert "Nobody to ask  never" in told


def test_nothing_a_door_says_drives_the_terminal_or_is_markup() -> None:
    row = pending(HOSTILE, group=HOSTILE, asked=HOSTILE, topics=(HOSTILE,), last_answer=HOSTILE)
    story = {
        "ended_ms": 1, "state": HOSTILE, "transaction_id": HOSTILE, "producer_group": HOSTILE,
        "decided_by": HOSTILE,
    }  # fmt: skip
    bad = {**STATUS, "degraded": [HOSTILE], "info": {"instance": HOSTILE}}
    found = look(rows=[row], stories=[story], status=bad, failures={"groups": HOSTILE})
    found.me = {"name": HOSTILE, "rights": []}
    pace = Pace(unreadable={(HOSTILE, HOSTILE): 3.0})
    found.numbers = Numbers(0.0, {}, {}, {})
    told = plain(pages.overview(found, pace, 80)) + plain(pages.head("http://x", found, ""))
    found.wish = Wish("transactions", Filters(group=HOSTILE))
    told += plain(pages.about(found, Sort("age"), 0))
    cells = [cell for row in pages.grid("transactions", [row], 200).cells for cell, _ in row]
    for text in (told, *cells):
        assert not set(text) & set("\x1b\x07\u202e")
    assert "[red]x[/red]" in told
    assert all("\n" not in cell for cell in cells)


# -- the lists -----------------------------------------------------------------------------------


def test_a_small_terminal_shows_ids_ages_and_who_is_alone() -> None:
    rows = [pending(f"order-{number}", next_check_s=None) for number in range(3)]
    found = pages.grid("transactions", rows, 75)
    assert sum(column.width + 2 for column in found.columns) <= 78
    names = [column.name for column in found.columns]
    assert names[:2] == ["Transaction", "group"]
    assert {"age", "next check"} <= set(names)
    assert ("no producer", "red") in found.cells[0]


def test_a_very_long_id_is_cut_in_a_list() -> None:
    (row,) = pages.grid("transactions", [pending("x" * 300)], 75).cells
    assert row[0][0].endswith("…")
    assert len(row[0][0]) == 48


@pytest.mark.parametrize("page", list(pages.SORTS))
def test_every_sort_is_a_sort_of_its_page_and_turns(page: str) -> None:
    group = {
        "producer_group": "a", "undecided_count": 1, "link_count": 0, "outstanding_count": 0,
        "waiting_count": 0, "breaker": "closed", "links": [], "elsewhere": [],
    }  # fmt: skip
    rows: list[dict[str, Any]] = {
        "transactions": [pending("a"), pending("b", age_s=5.0, check_count=9, next_check_s=None)],
        "parked": [given_up("a"), given_up("b", reason="late", parked_ms=5)],
        "groups": [group, {**group, "producer_group": "b", "undecided_count": 3}],
        "partitions": [PARTITION, {**PARTITION, "partition": 1, "pending_count": 99}],
    }[page]  # type: ignore[assignment]
    sort = pages.first_sort(page)
    for _ in pages.SORTS[page]:
        straight = pages.ordered(page, rows, sort)
        turned = pages.ordered(page, rows, Sort(sort.name, is_reversed=True))
        assert len(straight) == len(turned) == 2
        assert len({pages.key_of(page, row) for row in straight}) == 2
        assert pages.grid(page, straight, 75).cells
        sort = pages.next_sort(page, sort)
    assert sort == pages.first_sort(page)


def test_the_oldest_are_first_and_those_without_a_producer_before_the_next_check() -> None:
    young, old = pending("young", age_s=1.0), pending("old", age_s=9.0, next_check_s=None)
    assert pages.ordered("transactions", [young, old], Sort("age"))[0] is old
    assert pages.ordered("transactions", [young, old], Sort("age", is_reversed=True))[0] is young
    assert pages.ordered("transactions", [young, old], Sort("next check"))[0] is old


def test_a_list_says_what_it_is_of_how_much() -> None:
    rows = [pending("a"), pending("b")]
    found = look("transactions", rows, total_count=100_000, missing_partitions=[2])
    found.wish = Wish("transactions", Filters(group="shop", min_checks=3), 500)
    told = plain(pages.about(found, Sort("checks", is_reversed=True), 4))
    assert told.startswith("501 to 502 of 100,000, the oldest first  by checks, reversed")
    assert "filter: group=shop checks=3" in told
    assert "4 marked" in told
    assert "half partitions 2" in told
    assert plain(pages.about(look("parked"), Sort("age"), 0)) == "Nothing that matches is parked."
    assert "5 more parked" in plain(pages.about(look("parked", left_out_count=5), Sort("age"), 0))
    assert plain(pages.about(look("groups", rows, total_count=9), Sort("group"), 0)).startswith(
        "2 of 9"
    )


# -- the head ------------------------------------------------------------------------------------


def test_the_head_says_whose_and_whether_he_may_only_look() -> None:
    found = look()
    found.me = {"name": "watcher", "rights": ["observe"]}
    assert plain(pages.head("http://x:1", found, "seen 1")) == (
        "halfhitch shop-1 http://x:1  watcher  read-only  seen 1"
    )
    found.me = {"name": None, "rights": ["operate"]}
    assert plain(pages.head("http://x:1", found, "")) == "halfhitch shop-1 http://x:1  "
    assert plain(pages.head("http://x:1", None, "")) == "halfhitch http://x:1  "


def test_the_tabs_fit_and_the_chosen_one_is_seen_without_colour() -> None:
    text = pages.tabs("parked")
    assert len(text.plain) <= 80
    assert "3 Parked" in text.plain
    (span,) = [span for span in text.spans if span.style == "reverse bold"]
    assert text.plain[span.start : span.end] == " 3 Parked "
