"""Members and hashes: reversible for every name, and strict with everything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfhitch.adapters.redis import doubts
from halfhitch.adapters.redis.keys import identity_of, keys_of, member_of
from halfhitch.core.model import ProducerGroup, TransactionId
from halfhitch.ports import Doubt

NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=60)
IDENTITIES = st.tuples(NAMES.map(ProducerGroup), NAMES.map(TransactionId))
MILLISECONDS = st.integers(-(10**17), 10**17)


@given(IDENTITIES)
def test_a_member_stands_for_one_identity(identity: tuple[ProducerGroup, TransactionId]) -> None:
    member = member_of(identity)
    assert identity_of(member.encode()) == identity
    assert member.isascii()
    assert member.count(":") == 1
    assert not set(member) & set("{} \r\n*")


@given(IDENTITIES, IDENTITIES)
def test_two_identities_have_two_members(
    one: tuple[ProducerGroup, TransactionId], two: tuple[ProducerGroup, TransactionId]
) -> None:
    assert (member_of(one) == member_of(two)) == (one == two)


@pytest.mark.parametrize(
    "raw",
    [b"", b":", b"a", b"a:", b":b", b"a:b:c", b"a b:c", b"%61:b", b"%zz:b", b"%ff:b", b"\xff:b",
     b"a:b\n", b"a:%c3%bc", b"x" * 5_000 + b":y", None, 5, "a:b"],
)  # fmt: skip
def test_no_other_text_is_a_member(raw: object) -> None:
    assert identity_of(raw) is None


def test_a_cluster_name_cannot_reach_into_another() -> None:
    assert keys_of("a").due(1) == "hh:a:due:1"
    assert keys_of("a:due").due(1) == "hh:a%3Adue:due:1"
    assert keys_of("{a}").owner(0) == "hh:%7Ba%7D:owner:0"


@given(
    IDENTITIES,
    st.lists(NAMES, max_size=3),
    st.lists(st.integers(0, 2**63 - 1), max_size=5),
    st.tuples(MILLISECONDS, MILLISECONDS, MILLISECONDS),
    st.integers(0, 1_000),
    st.none() | MILLISECONDS,
    st.none() | NAMES,
)
def test_a_doubt_comes_back_as_it_was(
    identity: tuple[ProducerGroup, TransactionId],
    topics: list[str],
    half_offsets: list[int],
    times: tuple[int, int, int],
    count: int,
    last_check_ms: int | None,
    last_answer: str | None,
) -> None:
    doubt = Doubt(
        identity,
        tuple(topics),
        len(half_offsets),
        tuple(half_offsets),
        *times,
        count,
        count,
        last_check_ms,
        last_answer,
        last_answer,
        last_answer,
    )
    assert doubts.read(identity, _stored(doubts.write(doubt))) == doubt
    other = (ProducerGroup(identity[0] + "x"), identity[1])
    assert doubts.read(other, _stored(doubts.write(doubt))) is None


@given(st.lists(st.none() | st.binary(max_size=12), min_size=14, max_size=14))
def test_garbage_is_no_doubt(values: list[bytes | None]) -> None:
    identity = (ProducerGroup("g"), TransactionId("t"))
    values[0], values[1] = b"g", b"t"
    found = doubts.read(identity, values)
    assert found is None or found.identity == identity
    assert doubts.read_delivered(identity, (1,), [b"g", b"t", *values[2:5]]) >= 0


@pytest.mark.parametrize(
    ("check_count", "delivered", "known"),
    [(b"3", b"3", 3), (b"3", b"2", 2), (b"3", None, 0), (b"3", b"4", 0), (b"3", b"-1", 0),
     (None, b"3", 0), (b"3", b"x", 0), (b"", b"", 0), (b"3.0", b"3", 0)],
)  # fmt: skip
def test_what_was_delivered_is_believed_only_if_it_can_be(
    check_count: bytes | None, delivered: bytes | None, known: int
) -> None:
    identity = (ProducerGroup("g"), TransactionId("t"))
    values = [b"g", b"t", b"5,6,", check_count, delivered]
    assert doubts.read_delivered(identity, (5, 6), values) == known
    assert doubts.read_delivered(identity, (5,), values) == 0, "of other copies"
    assert doubts.read_delivered(identity, (5, 6), None) == 0
    assert doubts.read_delivered(identity, (5, 6), ValueError()) == 0
    assert doubts.read_delivered((ProducerGroup("h"), TransactionId("t")), (5, 6), values) == 0


def test_an_unknown_delivery_is_not_written_over_a_known_one() -> None:
    identity = (ProducerGroup("g"), TransactionId("t"))
    unknown = Doubt(identity, (), 1, (1,), 0, 0, 0, 3, 2)
    assert "delivered" not in doubts.write(unknown)
    assert "delivered" in doubts.write(Doubt(identity, (), 1, (1,), 0, 0, 0, 3, 3))


def _stored(fields: list[str | bytes | int]) -> list[bytes | None]:
    """As HMGET answers it."""
    texts = [part if isinstance(part, bytes) else str(part).encode() for part in fields]
    held = dict(zip(texts[::2], texts[1::2], strict=True))
    return [held.get(name.encode()) for name in doubts.FIELDS]
