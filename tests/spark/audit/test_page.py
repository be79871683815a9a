"""The audit's page: it is whole and well-formed, needs nothing, and obeys nobody's text."""

from __future__ import annotations

import random
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from chaos.kit.losing import LOSSES, C, a_life, played
from chaos.kit.losses import LOSSES as ALL
from halfhitch_spark.audit.measures import CHECKS, TO_DECISION_MS
from halfhitch_spark.audit.page import ROWS_MAX, page
from harness.spark_audit import by_spark

if TYPE_CHECKING:
    from halfhitch_spark.audit import Result

assert ALL is LOSSES
_VOID = {"meta", "!doctype"}


class Tags(HTMLParser):
    """Elements that are open, all names, and where anything is loaded from."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.loaded += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in _VOID and not (self.get_starttag_text() or "").endswith("/>"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(result: Result) -> Tags:
    tags = Tags()
    tags.feed(page(result, 0.5))
    assert tags.open == []
    assert tags.loaded == []
    assert "script" not in tags.names
    return tags


def test_a_clean_system_is_a_page(rng: random.Random) -> None:
    result = by_spark(played(rng.randrange(2**32)))
    assert "<p class='verdict clean'>clean</p>" in page(result, 0.5)
    assert "figure" in parsed(result).names
    result.measures.counts.clear()
    assert "Nothing was measured" in page(result, 0.5)


def test_text_of_others_is_escaped(rng: random.Random) -> None:
    world = played(rng.randrange(2**32))
    LOSSES["doubled"].spoil(world)
    evil = "<script>alert(1)</script>\x1b'\""
    life = world.prepare(1)
    life.identity = (evil, evil)  # type: ignore[assignment]
    world.decide(life, C)
    result = by_spark(world)
    result.findings[evil] = result.findings["shop"]
    result.measures.note(TO_DECISION_MS, evil, [evil], 17)
    result.measures.note(CHECKS, evil, [evil], 3)
    parsed(result)
    text = page(result, 0.5)
    assert "\x1b" not in text
    assert "&lt;script&gt;" in text


def test_a_long_table_says_what_it_leaves_out(rng: random.Random) -> None:
    world = played(rng.randrange(2**32))
    for _ in range(ROWS_MAX + 7):
        world.prepare(1)
    for record in world.records_of(a_life(world, 1)):
        record.state = "aborted"
    result = by_spark(world, limit=ROWS_MAX * 2)
    assert "more: see the table unfinished" in page(result, 0.5)
    assert "lost: " in page(result, 0.5)
    parsed(result)
