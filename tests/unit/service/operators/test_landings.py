"""Landings: how many are looked for, and how much of what they say is told."""

from __future__ import annotations

from halfhitch.service.operators.landings import (
    LOOKED_FOR_MAX,
    SHOWN_BYTES_MAX,
    Content,
    Landing,
    Showing,
    Wanted,
    landed,
)
from harness.told import Targets


def wanted(name: str) -> Wanted:
    return Wanted(
        producer_group="shop", transaction_id=name, message_count=1, forwarded_ms=1,
        places=frozenset({("orders", None)}),
    )  # fmt: skip


def message(value: bytes | None, key: bytes | None = b"k") -> Landing:
    content = Content(
        key=key, value=value, headers=[("a", b"1"), ("b", None)],
        key_bytes=len(key or b""), value_bytes=len(value or b""),
    )  # fmt: skip
    return Landing(topic="orders", partition=0, log_offset=1, stored_ms=1, index=0, content=content)


async def test_a_key_of_many_transactions_does_not_read_for_ever() -> None:
    targets = Targets()
    found = await landed(targets, [wanted(f"E{n}") for n in range(LOOKED_FOR_MAX + 2)])
    assert [len(each.messages) for each in found] == [1] * LOOKED_FOR_MAX + [0, 0]
    assert "not looked for" in str(found[-1].trouble)
    assert len(targets.asked) == LOOKED_FOR_MAX
    assert await landed(Targets(), []) == []


def test_a_large_value_is_cut_and_says_so() -> None:
    shown = Showing().shown(message(b"x" * (SHOWN_BYTES_MAX + 1))).content
    assert shown is not None
    assert (len(shown.value or b""), shown.value_bytes) == (SHOWN_BYTES_MAX, SHOWN_BYTES_MAX + 1)
    assert shown.is_cut
    whole = Showing().shown(message(None, None))
    assert whole == message(None, None)


def test_text_that_is_cut_stays_text() -> None:
    for letter in ("ä", "€", "🙂"):
        raw = (letter * SHOWN_BYTES_MAX).encode()
        for room in range(10, 15):
            content = Showing(room + 1).shown(message(raw)).content
            assert content is not None
            assert letter.startswith((content.value or b"").decode()[:1])
    binary = Showing(6).shown(message(b"\x80" * 9)).content
    assert binary is not None
    assert binary.value == b"\x80" * 5


def test_all_contents_of_an_answer_share_its_room() -> None:
    showing = Showing(10)
    first, second = showing.shown(message(b"12345678")), showing.shown(message(b"12345678"))
    assert first.content is not None
    assert second.content is not None
    assert (first.content.value, first.content.headers) == (b"12345678", [("a", b"1"), ("b", None)])
    assert (second.content.value, second.content.headers[0]) == (b"", ("a", b""))
    assert second.content.is_cut


def test_without_contents_there_is_nothing_to_show() -> None:
    hidden = Showing().hidden(message(b"v"))
    assert hidden.content is None
    assert Showing().shown(hidden) == hidden
