"""A doubt as the fields of a Redis hash, and back."""

from typing import Any

import pytest

from halfhitch.adapters.redis import doubts
from halfhitch.adapters.redis.doubts import DELIVERED_FIELDS, FIELDS
from halfhitch.core.model import Identity, ProducerGroup, TransactionId
from halfhitch.ports import Doubt

WHO: Identity = (ProducerGroup("shop"), TransactionId("T1"))


def doubt(**more: Any) -> Doubt:
    fields: dict[str, Any] = {
        "topics": ("orders", "points"),
        "message_count": 2,
        "half_offsets": (17, 18),
        "born_ms": 1,
        "immune_until_ms": 2,
        "due_ms": 3,
        "check_count": 2,
        "delivered": 2,
        "last_check_ms": 9,
        "last_answer": "unknown",
        "last_instance": "a",
        "last_reason": "no table",
    }
    return Doubt(WHO, **{**fields, **more})


def stored(*written: Doubt) -> dict[bytes, bytes]:
    """As Redis keeps what HSET was given."""
    kept: dict[bytes, bytes] = {}
    for each in written:
        flat = [v if isinstance(v, bytes) else str(v).encode() for v in doubts.write(each)]
        kept.update(zip(flat[::2], flat[1::2], strict=True))
    return kept


def values(kept: dict[bytes, bytes], names: tuple[str, ...] = FIELDS) -> list[bytes | None]:
    return [kept.get(name.encode()) for name in names]


@pytest.mark.parametrize(
    "it",
    [
        doubt(),
        doubt(check_count=0, delivered=0, last_check_ms=None, last_answer=None,
              last_instance=None, last_reason=None),
        doubt(half_offsets=(), topics=()),
    ],
)  # fmt: skip
def test_what_was_written_is_read(it: Doubt) -> None:
    assert doubts.read(WHO, values(stored(it))) == it


def test_a_new_owner_that_knows_less_does_not_wipe_out_what_its_predecessor_left() -> None:
    kept = stored(doubt(), doubt(delivered=1, last_answer=None, last_instance=None))
    read = doubts.read(WHO, values(kept))
    assert read is not None
    assert (read.delivered, read.last_answer, read.last_instance) == (2, "unknown", "a")
    assert doubts.read_delivered(WHO, (17, 18), values(kept, DELIVERED_FIELDS)) == 2


def test_another_transaction_or_other_copies_say_nothing() -> None:
    kept = stored(doubt())
    other: Identity = (WHO[0], TransactionId("T2"))
    assert doubts.read(other, values(kept)) is None
    assert doubts.read_delivered(WHO, (17, 19), values(kept, DELIVERED_FIELDS)) == 0


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("messages", b"two"),
        ("born", b""),
        ("topics", b"{"),
        ("offsets", b"17;18"),
        ("offsets", b"17"),
        ("due", None),
        ("last_answer", b"\xff"),
        ("check_count", b"9" * 30),
    ],
)
def test_a_field_that_is_garbage_makes_the_whole_doubt_absent(name: str, raw: Any) -> None:
    assert doubts.read(WHO, values({**stored(doubt()), name.encode(): raw})) is None


def test_a_number_that_was_never_written_cannot_have_been_delivered() -> None:
    kept = {**stored(doubt()), b"delivered": b"7"}
    assert doubts.read_delivered(WHO, (17, 18), values(kept, DELIVERED_FIELDS)) == 0
    assert doubts.read_delivered(WHO, (17, 18), None) == 0
    assert doubts.read(WHO, [b"x"]) is None
