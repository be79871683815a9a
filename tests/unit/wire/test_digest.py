"""What a message says: equal for honest repeats, and for nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfhitch.wire.digest import TRACING, UNKNOWN, digest_of

TOPIC, KEY, VALUE = "orders", b"k", b"v"

OTHERS = {
    "topic": ("orders2", None, KEY, VALUE, []),
    "partition": (TOPIC, 0, KEY, VALUE, []),
    "key": (TOPIC, None, b"k2", VALUE, []),
    "empty key": (TOPIC, None, b"", VALUE, []),
    "no key": (TOPIC, None, None, VALUE, []),
    "value": (TOPIC, None, KEY, b"v2", []),
    "empty value": (TOPIC, None, KEY, b"", []),
    "no value": (TOPIC, None, KEY, None, []),
    "header": (TOPIC, None, KEY, VALUE, [("a", b"1")]),
    "header's value": (TOPIC, None, KEY, VALUE, [("a", b"2")]),
    "empty header": (TOPIC, None, KEY, VALUE, [("a", b"")]),
    "null header": (TOPIC, None, KEY, VALUE, [("a", None)]),
    "header's name": (TOPIC, None, KEY, VALUE, [("b", b"1")]),
    "a header twice": (TOPIC, None, KEY, VALUE, [("a", b"1"), ("a", b"1")]),
    "moved from key to value": (TOPIC, None, b"kv", b"", []),
    "moved from topic to key": ("order", None, b"sk", VALUE, []),
    "moved from name to value": (TOPIC, None, KEY, VALUE, [("a1", b"")]),
    "moved from value to header": (TOPIC, None, KEY, b"", [("v", b"")]),
}


def test_each_part_of_a_message_counts_and_nothing_moves_between_them() -> None:
    found = {name: digest_of(*message) for name, message in OTHERS.items()}
    found["the message"] = digest_of(TOPIC, None, KEY, VALUE)
    assert len(set(found.values())) == len(found), found
    assert UNKNOWN not in found.values()


def test_it_is_stored_in_kafka_and_never_changes() -> None:
    assert f"{digest_of(TOPIC, None, KEY, VALUE):016x}" == "e9ed44bebbfc46f6"
    full = digest_of("ünited", 3, None, b"", [("b", None), ("a", b"1"), ("traceparent", b"x")])
    assert f"{full:016x}" == "ad0358b7097c26d4"


@pytest.mark.parametrize("name", [*sorted(TRACING), "TraceParent", "X-B3-TraceId", "SW8"])
def test_what_tracing_adds_to_a_repeat_makes_no_other_message(name: str) -> None:
    first = digest_of(TOPIC, None, KEY, VALUE, [("a", b"1"), (name, b"span 1")])
    assert first == digest_of(TOPIC, None, KEY, VALUE, [(name, b"span 2"), ("a", b"1")])
    assert first == digest_of(TOPIC, None, KEY, VALUE, [("a", b"1")])


@given(st.lists(st.tuples(st.sampled_from("abc"), st.binary(max_size=2) | st.none())), st.randoms())
def test_headers_of_different_names_have_no_order_and_those_of_one_name_have(
    headers: list[tuple[str, bytes | None]], dice: object
) -> None:
    values = {name: [v for n, v in headers if n == name] for name in "abc"}
    shuffled = list(headers)
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    same = values == {name: [v for n, v in shuffled if n == name] for name in "abc"}
    first, second = (digest_of(TOPIC, None, KEY, VALUE, each) for each in (headers, shuffled))
    assert (first == second) is same
