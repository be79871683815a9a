"""Landings: how many are looked for, and how much of what they say is told."""

from __future__ import annotations

from halfhitch.service.operators.landings import (
    LOOKED_FOR_MAX,
    SHOWN_BYTES_MAX,
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


HEADERS = [("a", b"1"), ("b", None)]


async def test_a_key_of_many_transactions_does_not_read_for_ever() -> None:
    targets = Targets()
    found = await landed(targets, [wanted(f"E{n}") for n in range(LOOKED_FOR_MAX + 2)])
    assert [len(each.messages) for each in found] == [1] * LOOKED_FOR_MAX + [0, 0]
    assert "not looked for" in str(found[-1].trouble)
    assert len(targets.asked) == LOOKED_FOR_MAX
    assert await landed(Targets(), []) == []


def test_a_large_value_is_cut_and_says_so() -> None:
    shown = Showing().shown(b"k", b"x" * (SHOWN_BYTES_MAX + 1), HEADERS)
    assert (len(shown.value or b""), shown.value_bytes) == (SHOWN_BYTES_MAX, SHOWN_BYTES_MAX + 1)
    assert shown.is_cut
    whole = Showing().shown(None, None, HEADERS)
    assert (whole.key, whole.value, list(whole.headers), whole.is_cut) == (
        None, None, HEADERS, False,
    )  # fmt: skip


def test_text_that_is_cut_stays_text() -> None:
    for letter in ("ä", "€", "🙂"):
        raw = (letter * SHOWN_BYTES_MAX).encode()
        for room in range(10, 15):
            content = Showing(room + 1).shown(b"k", raw, ())
            assert letter.startswith((content.value or b"").decode()[:1])
    assert Showing(6).shown(b"k", b"\x80" * 9, ()).value == b"\x80" * 5


def test_all_contents_of_an_answer_share_its_room() -> None:
    showing = Showing(28)
    first, second = (showing.shown(b"k", b"12345678", HEADERS) for _ in range(2))
    assert (first.value, first.headers, first.is_cut) == (b"12345678", HEADERS, False)
    assert (second.value, second.headers, second.is_cut) == (b"", [], True)


def test_names_of_headers_were_outside_the_bound_of_an_answer() -> None:
    """A producer may give 200 of them to each message, of 5 KB each."""
    showing = Showing(100_000)
    shown = [showing.shown(b"k", b"v", [("n" * 5_000, b"")] * 200) for _ in range(20)]
    told = sum(len(name) + len(raw or b"") for each in shown for name, raw in each.headers)
    assert told <= 100_000
    assert shown[0].is_cut
    empty = [Showing(800).shown(b"", b"", [("", b"")] * 1_000)]
    assert [len(each.headers) for each in empty] == [100]
    (cut,) = Showing().shown(b"k", b"v", [("ä" * SHOWN_BYTES_MAX, b"1")]).headers
    assert cut == ("ä" * (SHOWN_BYTES_MAX // 2), b"1")
