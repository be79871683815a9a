"""Sockets that halfhitch-native reads and writes, over a Kafka that is not there."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import TYPE_CHECKING

import pytest

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.frame import encode, request
from harness.native import needs_native
from harness.native_carrier import DEADLINE_S, TIMED_OUT, Carried, end, half

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = needs_native
ROOMS = (1_000, 10_000)
HEARTBEAT = encode(request(codes.HEART_BEAT, 7, {}, b"x" * 300))


class Lent:
    """A carrier that reads and writes one end of a connection; the other is the test's."""

    def __init__(self, *, delivery_ms: int = 300) -> None:
        self.carried = Carried(delivery_ms=delivery_ms)
        self.carried.join(1)
        self.own, self.far = socket.socketpair()
        self.own.setblocking(False)
        self.far.settimeout(DEADLINE_S)

    def lend(self, rooms: tuple[int, int] = ROOMS) -> None:
        assert self.carried.it.lend(1, self.own.fileno(), rooms)

    def until_unread(self, data: bytes) -> None:
        self.carried.until(lambda: self.carried.unread.get(1, b"") == data, "what is given back")

    def close(self) -> None:
        self.carried.take_back(1)
        self.carried.close()
        self.own.close()
        self.far.close()


@pytest.fixture
def lent() -> Iterator[Lent]:
    made = Lent()
    yield made
    made.close()


@pytest.fixture
def patient() -> Iterator[Lent]:
    """Whose Kafka is waited for longer than any test."""
    made = Lent(delivery_ms=60_000)
    yield made
    made.close()


def test_what_comes_over_a_lent_socket_is_carried_out_and_told_with_its_count(lent: Lent) -> None:
    lent.lend()
    lent.far.sendall(b"".join(half(n, f"U{n}") + end(50 + n, f"U{n}") for n in range(20)))
    lent.carried.until_failed(40)
    assert {one.error_number for one in lent.carried.failures} == {TIMED_OUT}
    assert lent.carried.begun == {1: 40}
    assert lent.carried.unread == {}


def test_what_is_the_twins_is_given_back_whole_and_in_order(lent: Lent) -> None:
    lent.lend()
    other = half(3, "U3", group="other")
    data = HEARTBEAT + half(1, "U1") + other + HEARTBEAT
    for at in range(0, len(data), 97):
        lent.far.sendall(data[at : at + 97])
    lent.until_unread(HEARTBEAT + other + HEARTBEAT)
    lent.carried.until_failed(1)


def test_an_end_that_was_made_up_is_given_back_from_a_lent_socket_too(lent: Lent) -> None:
    lent.lend()
    forged = end(1, "U1", seal=17) + end(2, "U1", 12, seal=0)
    lent.far.sendall(forged[:50])
    lent.far.sendall(forged[50:] + end(3, "U3"))
    lent.until_unread(forged)
    lent.carried.until_failed(1)
    assert lent.carried.begun == {1: 1}


def test_more_than_there_is_room_for_is_given_back(patient: Lent) -> None:
    patient.lend(rooms=(2, 10_000))
    halves = [half(n, f"U{n}") for n in range(5)]
    patient.far.sendall(b"".join(halves))
    patient.until_unread(b"".join(halves[2:]))
    patient.carried.until(lambda: patient.carried.due == [1], "taken back")
    assert patient.carried.take_back(1)[0] == b""
    assert patient.carried.begun == {1: 2}


def test_requests_that_nothing_answers_are_told_of_all_the_same(patient: Lent) -> None:
    """Else the loop would take the connection for idle, and have room for as many again."""
    patient.lend()
    patient.far.sendall(half(1, "U1"))
    patient.carried.until(lambda: patient.carried.begun == {1: 1}, "told")


def test_what_is_given_back_faster_than_it_is_read_waits_in_the_kernel(lent: Lent) -> None:
    lent.lend()
    lent.far.settimeout(0.5)  # whoever still reads makes room sooner
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 50_000_000:
            sent += lent.far.send(HEARTBEAT * 100)
    lent.carried.catch_up()
    assert lent.carried.due == [1]
    assert len(lent.carried.unread[1]) < 1_000_000


def test_no_more_is_taken_than_all_connections_together_may_have(patient: Lent) -> None:
    patient.lend(rooms=(1_000, 3))
    halves = [half(n, f"U{n}") for n in range(5)]
    patient.far.sendall(b"".join(halves))
    patient.until_unread(b"".join(halves[3:]))


def test_the_end_of_a_connection_is_the_loops_to_notice(lent: Lent) -> None:
    lent.lend()
    lent.far.close()
    lent.carried.until(lambda: lent.carried.due == [1], "taken back")
    assert lent.carried.take_back(1) == (b"", 0, 0)
    assert lent.own.recv(1) == b"", "and it can"


def test_once_it_is_taken_back_nothing_more_is_read(patient: Lent) -> None:
    patient.lend()
    patient.far.sendall(half(1, "U1") + HEARTBEAT)
    patient.until_unread(HEARTBEAT)
    unsent, taken, held = patient.carried.take_back(1)
    assert (unsent, taken + patient.carried.begun.get(1, 0), held) == (b"", 1, 0)
    patient.far.sendall(b"later")
    time.sleep(0.05)  # whoever still read would have read by now
    assert patient.own.recv(10) == b"later"


def test_a_frame_that_has_begun_is_gone_on_with_wherever_its_rest_is_read(patient: Lent) -> None:
    whole = half(1, "U1")
    assert patient.carried.feed(1, whole[:9]) == (b"", 0, 9)
    patient.lend()
    patient.far.sendall(whole[9:30])
    give_up_s = time.monotonic() + DEADLINE_S
    while True:
        unsent, taken, held = patient.carried.take_back(1)
        assert (unsent, taken) == (b"", 0)
        if held == 30:
            break
        assert time.monotonic() < give_up_s
        patient.lend()
    assert patient.carried.feed(1, whole[30:]) == (b"", 1, 0)


def test_a_frame_that_stays_unfinished_is_told_of(lent: Lent) -> None:
    lent.lend()
    lent.far.sendall(half(1, "U1")[:20])
    give_up_s = time.monotonic() + DEADLINE_S
    while not lent.carried.it.lingering():
        assert time.monotonic() < give_up_s
        time.sleep(0.02)
    assert lent.carried.it.lingering() == [1]


def test_a_large_frame_is_left_to_the_loop(lent: Lent) -> None:
    lent.lend()
    lent.far.sendall(half(1, "U1") + HEARTBEAT + (99_000).to_bytes(4, "big") + b"\0" * 70_000)
    lent.carried.until(lambda: lent.carried.due == [1], "taken back")
    unsent, taken, held = lent.carried.take_back(1)
    rest = bytes(lent.own.recv(100_000)) if held < 70_004 else b""
    lent.carried.catch_up()
    assert (unsent, held + len(rest)) == (b"", 70_004)
    assert lent.carried.begun.get(1, 0) + taken == 1


def test_who_does_not_read_is_left_to_the_loop_with_what_is_unsent(lent: Lent) -> None:
    lent.lend()
    content = b"0123456789" * 100_000
    lent.carried.it.write(1, content)
    lent.carried.it.write(1, b"behind it")
    lent.carried.until(lambda: lent.carried.due == [1], "taken back")
    unsent, _, _ = lent.carried.take_back(1)
    lent.own.close()  # the test has the only other copy
    sent = bytearray()
    while piece := lent.far.recv(1_000_000):
        sent += piece
    assert bytes(sent) + unsent == content + b"behind it"
    assert 0 < len(unsent) < len(content)


def test_what_is_written_for_the_twin_arrives(lent: Lent) -> None:
    lent.lend()
    lent.carried.it.write(1, b"answer")
    assert lent.far.recv(100) == b"answer"


def test_a_socket_can_be_lent_again(lent: Lent) -> None:
    for n in range(5):
        lent.lend()
        lent.far.sendall(HEARTBEAT)
        lent.until_unread(HEARTBEAT * (n + 1))
        assert lent.carried.take_back(1) == (b"", 0, 0)


def test_what_is_no_socket_is_not_lent(lent: Lent) -> None:
    assert not lent.carried.it.lend(1, 99_999, ROOMS)
    assert not lent.carried.it.lend(1, -1, ROOMS), "closed"
    assert not lent.carried.it.lend(2, lent.own.fileno(), ROOMS), "nobody connected"


def test_who_stops_gives_back_what_comes_later(patient: Lent) -> None:
    patient.lend()
    patient.far.sendall(HEARTBEAT)
    patient.until_unread(HEARTBEAT)
    patient.carried.it.stop(0)
    patient.far.sendall(half(1, "U1"))
    assert patient.carried.take_back(1) == (b"", 0, 0)
    assert patient.own.recv(10_000) == half(1, "U1")
