"""What is taken from records: garbage is counted, memory is bounded."""

from __future__ import annotations

import random

import pytest

from halfhitch.core.model import (
    GIVEN_UP,
)
from halfhitch.errors import TopologyError
from halfhitch.wire import op as op_wire
from harness.verified import (
    C,
    ended,
    look,
    trim,
)
from harness.verify_world import (
    HALF,
    OP,
    PARKED_TOPIC,
    World,
)


@pytest.mark.parametrize(
    "headers",
    [
        [("UNIQ_KEY", b"t0"), ("PGROUP", b"shop"), ("HALFHITCH", None)],
        [("UNIQ_KEY", b"t0"), ("PGROUP", b"shop"), ("HALFHITCH", b"1;x;0;i")],
        [("UNIQ_KEY", b"t0"), ("PGROUP", b"shop"), ("HALFHITCH", b"1;1000;0;i")],
        [("UNIQ_KEY", b"t0"), ("PGROUP", b"shop"), ("HALFHITCH", b"2;0;0;i")],
        [("UNIQ_KEY", None), ("PGROUP", b"shop"), ("HALFHITCH", b"1;0;0;i")],
        [("UNIQ_KEY", b"x" * 256), ("PGROUP", b"shop"), ("HALFHITCH", b"1;0;0;i")],
        [("PGROUP", b"shop"), ("UNIQ_KEY", b"t0"), ("HALFHITCH", b"1;0;0;i")],
    ],
)
def test_what_only_looks_like_a_forwarded_record_is_counted_as_garbage(
    world: World, headers: list[tuple[str, bytes | None]]
) -> None:
    world.append(("orders", 1), None, b"v", headers)
    outcome = look(world)
    assert outcome.findings.is_clean
    assert outcome.account.garbage == {"orders": 1}


@pytest.mark.parametrize("topic", [HALF, OP, PARKED_TOPIC])
def test_garbage_on_an_internal_topic_is_counted_and_passed_over(world: World, topic: str) -> None:
    world.append((topic, 1), None, b"v", [("TAGS", b"d"), ("HALFHITCH", b"nonsense")])
    outcome = look(world)
    assert outcome.account.garbage == {topic: 1}
    # A half that could not be read lies there, and nothing is to be done for it.
    assert outcome.findings.is_clean


def test_a_record_of_a_newer_release_is_not_guessed_at(world: World) -> None:
    world.append((OP, 0), None, b"1,", [("TAGS", b"d"), ("HALFHITCH", b"2[]")])
    with pytest.raises(TopologyError, match="newer release"):
        look(world)


def test_a_finished_transaction_of_one_message_takes_at_most_150_bytes(rng: random.Random) -> None:
    world = World(rng)
    for _ in range(200):
        ended(world, C, 1)
    trim(world, HALF)
    account = look(world).account
    # The ids here are short: 32 characters twice is what ours take.
    assert account.facts.size_bytes / 200 + 2 * (32 - 4) <= 150


def test_a_strangers_marks_of_far_offsets_take_little_memory(world: World) -> None:
    entry = op_wire.DoneEntry("shop", "stranger", GIVEN_UP, 1_000)
    hints = [10**15 + step * 10**10 for step in range(1_000)]
    world.append((OP, 0), None, *op_wire.write(b"d", [entry], hints))
    account = look(world).account
    assert sum(map(len, account._done.values())) <= 1_100 * 512
