"""What a step tells of a transaction: by whom the entry is written, and what it says."""

from __future__ import annotations

from typing import Any

import pytest

from halfhitch.core.model import (
    DoneMark,
    HalfOffset,
    OpOffset,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TimestampMs,
    TransactionId,
)
from halfhitch.core.step import Step
from halfhitch.core.transaction import State, Transaction
from halfhitch.service.owner.payloads import PayloadCache
from halfhitch.service.owner.step_stories import Known, of_step
from halfhitch.wire import story
from halfhitch.wire.half import HalfRecord, system_headers
from halfhitch.wire.story import Ended
from halfhitch.wire.story_entries import decode_entry

IDENTITY = ProducerGroup("shop"), TransactionId("first")
FIRST, FURTHER = HalfOffset(17), HalfOffset(18)
HEADERS = system_headers(HalfRecord("first", "shop", 0, 5, "vm-1", "orders", digest=5))
PIECE = b"[]", b"mark"


class LyingOutside:
    """Of the native reader: it writes the entry itself."""

    key, value, headers, size_bytes = b"k", b"v", HEADERS, 100

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def facts(self) -> None: ...
    def aim(self) -> None: ...
    def told(self) -> None: ...

    def story(self, *how: int | str | None) -> tuple[bytes, bytes]:
        self.asked.append(how)
        return PIECE


class Spans:
    """Hears what has ended."""

    def __init__(self) -> None:
        self.ended: list[Ended] = []

    def ends(self, ended: Ended, _: object) -> None:
        self.ended.append(ended)


def transaction(
    resolution: Resolution = Resolution.COMMIT, reason: str | None = None
) -> Transaction:
    made = Transaction(IDENTITY, State.WRITING, TimestampMs(5))
    made.first = made.began_at = FIRST
    made.decide(resolution, 1, OpOffset(7), TimestampMs(6), reason, ResolutionSource.PRODUCER)
    made.check_count = 2
    return made


def told(one: Transaction, known: Known, spans: Any = None) -> list[tuple[bytes, bytes]]:
    done = [DoneMark(IDENTITY, one.ending, [FIRST])]
    return of_step(Step([], done, [], 0, 0, [one]), known, spans, 8)


def known(only: LyingOutside, /, **more: Any) -> Known:
    return Known(**{"payload": {17: only}, "payloads": PayloadCache(1_000), "whys": {}, **more})


def test_of_one_message_that_lies_outside_the_entry_is_written_there() -> None:
    payload = LyingOutside()
    assert told(transaction(), known(payload)) == [PIECE]
    assert payload.asked == [(1, 0, 5, 6, 7, "producer", 2, 1, 17)]


def test_so_it_is_of_one_that_is_rolled_back_while_its_message_is_still_here() -> None:
    payload, cache = LyingOutside(), PayloadCache(10_000)
    cache.put(17, payload)
    rolled_back = transaction(Resolution.ROLLBACK)
    assert told(rolled_back, known(payload, payload={}, payloads=cache)) == [PIECE]
    assert payload.asked == [(0, 0, 5, 6, 7, "producer", 2, 1, 17)]
    cache.clear()
    [(entry, _)] = told(rolled_back, known(payload, payload={}, payloads=cache))
    ended = decode_entry(entry)
    assert isinstance(ended, Ended)
    assert (ended.ending, ended.message_count, ended.marker, ended.targets) == (0, 1, "", [])


@pytest.mark.parametrize("what", ["a reason", "why it is parked", "a second message", "spans"])
def test_what_says_more_is_written_here(what: str) -> None:
    payload, spans = LyingOutside(), Spans() if what == "spans" else None
    one = transaction(reason="no stock" if what == "a reason" else None)
    whys = {IDENTITY: ("undeliverable", "too large")} if what == "why it is parked" else {}
    if what == "a second message":
        one.take(1, FURTHER, 100, supersedes=False, digest=6)
    [(entry, marks)] = told(
        one, known(payload, payload={17: payload, 18: payload}, whys=whys), spans
    )
    ended = decode_entry(entry)
    assert isinstance(ended, Ended)
    assert payload.asked == []
    assert ended.reason == one.reason
    assert ended.why == ("undeliverable: too large" if whys else None)
    assert len(ended.targets) == (2 if what == "a second message" else 1)
    assert marks.startswith(story.mark_of("first"))
    assert spans is None or spans.ended == [ended]


@pytest.mark.parametrize("which", ["stored_at_ms", "began_at", "resumed_count"])
def test_a_number_of_nineteen_digits_kept_a_whole_step_from_being_told(which: str) -> None:
    """A stranger's half may name one, and it does not fit where the entry is written natively."""
    payload, one = LyingOutside(), transaction()
    setattr(one, which, 10**19 - 1)
    [(entry, _)] = told(one, known(payload))
    assert payload.asked == []
    assert isinstance(decode_entry(entry), Ended)
