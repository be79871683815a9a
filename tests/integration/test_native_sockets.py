"""Sockets that halfhitch-native reads and writes, on a real Kafka."""

from __future__ import annotations

import select
import socket
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.wire.remoting.frame import Frames
from harness.kafka import create_topics, fresh_name
from harness.native import needs_native
from harness.native_carrier import DEADLINE_S, PARTITIONS, Carried, half

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.kafka, needs_native]
ROOMS = (1_000, 10_000)
TRACED = f"00-{'ab' * 16}-{'cd' * 8}-01"


@pytest.fixture
def carried(kafka: Any) -> Iterator[Carried]:
    topics = fresh_name("half"), fresh_name("op")
    create_topics(kafka.bootstrap, dict.fromkeys(topics, PARTITIONS))
    made = Carried(bootstrap=kafka.bootstrap, topics=topics, delivery_ms=20_000)
    made.join(1)
    yield made
    made.close()


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    own, far = socket.socketpair()
    own.setblocking(False)
    far.settimeout(DEADLINE_S)
    with own, far:
        yield own, far


def answered(far: socket.socket, count: int) -> list[int]:
    frames, found = Frames(), []
    while len(found) < count:
        found += [frame.opaque for frame in frames.feed(far.recv(65_536))]
    return found


def test_halves_over_a_lent_socket_are_answered_over_it(
    carried: Carried, ends: tuple[socket.socket, socket.socket]
) -> None:
    own, far = ends
    assert carried.it.lend(1, own.fileno(), ROOMS)
    for n in range(200):
        far.sendall(half(n, f"U{n}"))
    assert sorted(answered(far, 200)) == list(range(200))
    back = carried.it.take_back(1)
    assert (back.unsent, back.begun_count, back.held_bytes) == (b"", 200, 0)
    (progress,) = carried.it.events().progress
    assert (progress.done_count, progress.answers) == (200, b"")


def test_an_answer_that_was_ready_when_the_socket_was_lent_is_not_forgotten(
    carried: Carried, ends: tuple[socket.socket, socket.socket]
) -> None:
    own, far = ends
    assert carried.feed(1, half(5, "U5")) == (b"", 1, 0)
    assert select.select([carried.pipe[0]], [], [], DEADLINE_S)[0], "the answer is ready"
    assert carried.it.lend(1, own.fileno(), ROOMS)
    (progress,) = carried.it.events().progress
    told = (progress.connection, progress.begun_count, progress.done_count, progress.answers)
    assert told == (1, 0, 1, b"")
    assert answered(far, 1) == [5]


def test_prepares_that_say_their_trace_are_told_with_it_the_last_ones_of_very_many(
    carried: Carried, ends: tuple[socket.socket, socket.socket]
) -> None:
    own, far = ends
    assert carried.it.lend(1, own.fileno(), ROOMS)
    far.sendall(half(1, "plain"))
    answered(far, 1)
    assert carried.it.events().traced == []
    for name in ("traceparent", "TraceParent"):
        far.sendall(half(2, f"U-{name}", more=f"{name}\x01{TRACED}\x02"))
        answered(far, 1)
        ((passed_s, said),) = carried.it.events().traced
        assert said == TRACED.encode()
        assert 0 < passed_s < DEADLINE_S
    far.sendall(half(3, "long", more=f"traceparent\x01{TRACED}-{'x' * 202}\x02"))
    for n in range(40):
        far.sendall(half(n, f"U{n}", more=f"traceparent\x01{n:02}-{TRACED}\x02"))
    answered(far, 41)
    told = carried.it.events().traced
    assert len(told) == 16
    assert {said[3:] for _, said in told} == {TRACED.encode()}
