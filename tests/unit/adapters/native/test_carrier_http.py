"""The data door's carrier itself, over a Kafka that is not there."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest

from halfhitch.adapters.native import carrier
from halfhitch.wire.digest import digest_of
from halfhitch.wire.handle import Handle, HandleCodec
from harness.native import native, needs_native
from harness.raw_http import json_post, request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = needs_native
DEADLINE_S = 15.0
TIMED_OUT = -192
UNIQUE = "0123456789ab4def8123456789abcdef"
CODEC = HandleCodec([b"a key that signs"], "a cluster")


class Lent:
    """A carrier that reads and writes one end of a connection; the other is the test's."""

    def __init__(self, *, delivery_ms: int) -> None:
        self.pipe = os.pipe()
        for end in self.pipe:
            os.set_blocking(end, False)
        options = {
            "bootstrap.servers": "127.0.0.1:1",
            "enable.idempotence": True,
            "message.timeout.ms": delivery_ms,
            "socket.timeout.ms": min(300, delivery_ms),
            "log_level": 0,
        }
        self.it: Any = native.HttpNative(
            carrier.library(),
            carrier.native_options(options),
            half_topic="half",
            op_topic="op",
            instance="shop-7",
            wake=self.pipe,
            head_bytes_max=4_096,
            message_bytes_max=10_000,
            in_flight_bytes_max=20_000,
            immunity_s=60.0,
        )
        self.it.open(4, 1, *CODEC.signer)
        self.it.allow([("g", "orders")])
        self.own, self.far = socket.socketpair()
        self.own.setblocking(False)
        self.far.settimeout(DEADLINE_S)
        self.it.connect(1, b"localhost")
        self.failures: list[Any] = []
        self.asked: list[tuple[int, int, str, str, int]] = []
        self.due: list[int] = []

    def lend(self, room: int = 100) -> None:
        assert self.it.lend(1, self.own.fileno(), room)

    def until(self, happened: Callable[[], object]) -> None:
        give_up_s = time.monotonic() + DEADLINE_S
        while not happened():
            assert time.monotonic() < give_up_s
            select.select([self.pipe[0]], [], [], 0.05)
            self.asked += self.it.asked()[0]
            events = self.it.events()
            assert not events.prepared_s
            self.failures += events.failures
            self.due += events.due

    def taken_back(self) -> tuple[bytes, bytes, bool]:
        back = self.it.take_back(1)
        return back.unsent, back.held, back.is_busy

    def close(self) -> None:
        self.it.take_back(1)
        self.it.stop(0)
        for end in self.pipe:
            os.close(end)
        self.own.close()
        self.far.close()


@pytest.fixture
def lent() -> Iterator[Lent]:
    with contextlib.closing(Lent(delivery_ms=300)) as made:
        yield made


@pytest.fixture
def patient() -> Iterator[Lent]:
    """Whose Kafka is waited for longer than any test."""
    with contextlib.closing(Lent(delivery_ms=60_000)) as made:
        yield made


def half(body: bytes = b"v", *more: tuple[str, str], topic: str = "orders", **on: Any) -> bytes:
    headers = (("Half-Producer-Group", "g"), *more)
    return request("POST", f"/v1/topics/{topic}/half", headers, body, **on)


def prepare(*, name: str | None = None, group: str = "g", **message: Any) -> bytes:
    """As JSON."""
    found = {"topic": "orders", **({} if "value_base64" in message else {"value": "v"}), **message}
    body = {"producer_group": group, "messages": [found]}
    return json_post("/v1/transactions", body if name is None else {**body, "transaction_id": name})


def end(how: str = "commit", *, offset: int = 17, name: str = "T1") -> bytes:
    handle = CODEC.encode(Handle(1, "g", name, (offset,), ("orders",)))
    return request("POST", f"/v1/transactions/{handle}/{how}")


def test_a_half_that_failed_stops_the_connection_and_the_rest_comes_back(lent: Lent) -> None:
    lent.lend()
    lent.far.sendall(half(b"v") + half(b"w"))
    lent.until(lambda: lent.failures and lent.due)
    (failed,) = lent.failures
    assert (failed.connection, failed.route, failed.error_number) == (1, "half", TIMED_OUT)
    assert (failed.group, len(failed.transaction_id)) == ("g", 32)
    assert lent.taken_back() == (b"", half(b"w"), True)
    assert lent.it.under_way() == 0


def test_what_is_under_way_is_told_of_after_the_socket_came_back(lent: Lent) -> None:
    lent.lend()
    lent.far.sendall(half())
    lent.until(lambda: lent.it.under_way() == 1)
    assert lent.taken_back() == (b"", b"", True)
    lent.until(lambda: lent.failures)
    assert len(lent.failures[0].transaction_id) == 32


@pytest.mark.parametrize(
    "odd",
    [half(topic="points"), half(host="evil"), half(b"v", ("Half-Key", "")), half(b"x" * 10_001),
     half(b"v", ("Half-Transaction-Id", "x" * 256)), request("GET", "/v1/openapi.yaml"), end(),
     half(b"v", ("Expect", "100-continue"))[:-1], b"GARBAGE\r\n", prepare(topic="points"),
     prepare(group="h"), prepare(partition=1), prepare(value=None), prepare(value="x" * 10_001),
     json_post("/v1/transactions", b"{")],
    ids=["topic", "host", "empty", "large", "name", "route", "unknown end", "expect", "garbage",
         "topic as JSON", "group as JSON", "partition", "tombstone", "large JSON", "no JSON"],
)  # fmt: skip
def test_what_is_odd_comes_back_whole(patient: Lent, odd: bytes) -> None:
    patient.lend()
    patient.far.sendall(odd)
    patient.until(lambda: patient.due)
    assert patient.taken_back() == (b"", odd, False)


def test_a_prepare_as_json_goes_as_a_half_does_and_is_told_as_what_it_was(lent: Lent) -> None:
    lent.lend()
    lent.far.sendall(prepare() + prepare(key="k"))
    lent.until(lambda: lent.failures and lent.due)
    (failed,) = lent.failures
    assert (failed.route, failed.error_number, failed.is_named) == ("prepare", TIMED_OUT, False)
    assert (failed.partition, failed.group, len(failed.transaction_id)) == (1, "g", 32)
    assert lent.taken_back() == (b"", prepare(key="k"), True)
    assert lent.it.under_way() == 0


def test_a_prepare_as_json_under_a_name_is_asked_for_as_a_half_is(patient: Lent) -> None:
    patient.lend()
    sent = prepare(name=UNIQUE, key="k", value_base64="AP8=", headers=[["b", "1"], ["a", ""]])
    patient.far.sendall(sent[:-1])
    assert patient.it.under_way() == 0
    patient.far.sendall(sent[-1:])
    patient.until(lambda: patient.asked)
    says = digest_of("orders", None, b"k", b"\x00\xff", [("a", b""), ("b", b"1")])
    assert patient.asked == [(1, crc32(b"k") % 4, "g", UNIQUE, says)]
    assert patient.taken_back() == (b"", sent, False)


def named(name: str = UNIQUE, body: bytes = b"v", *more: tuple[str, str], **on: Any) -> bytes:
    return half(body, ("Half-Transaction-Id", name), *more, **on)


def test_a_name_is_asked_for_before_anything_is_stored(patient: Lent) -> None:
    patient.lend()
    patient.far.sendall(named())
    patient.until(lambda: patient.asked)
    says = digest_of("orders", None, None, b"v", ())
    assert patient.asked == [(1, crc32(UNIQUE.encode()) % 4, "g", UNIQUE, says)]
    assert patient.it.under_way() == 1
    patient.it.store([1])
    assert patient.taken_back() == (b"", b"", True)


def test_a_name_with_a_key_lives_where_the_key_says(patient: Lent) -> None:
    patient.lend()
    patient.far.sendall(named(UNIQUE, b"v", ("Half-Key", "k")))
    patient.until(lambda: patient.asked)
    says = digest_of("orders", None, b"k", b"v", ())
    assert patient.asked == [(1, crc32(b"k") % 4, "g", UNIQUE, says)]


def test_a_name_that_is_known_comes_back_whole_with_what_came_behind_it(patient: Lent) -> None:
    patient.lend()
    patient.far.sendall(named() + half(b"w"))
    patient.until(lambda: patient.asked)
    assert patient.taken_back() == (b"", named() + half(b"w"), False)
    assert patient.it.under_way() == 0
    assert patient.it.asked() == ([], False)
    patient.it.store([1])  # nothing of it is left
    assert patient.it.under_way() == 0


def test_the_room_of_a_name_that_came_back_is_free_again(patient: Lent) -> None:
    for connection in (1, 2, 3, 4):
        own, far = socket.socketpair()
        with own, far:
            own.setblocking(False)
            patient.it.connect(connection, b"localhost")
            assert patient.it.lend(connection, own.fileno(), 1)
            far.sendall(named(f"T{connection}", b"x" * 9_990))
            patient.until(lambda: patient.asked)
            assert patient.asked.pop()[0] == connection
            assert not patient.it.take_back(connection).is_busy


def test_what_was_asked_for_a_socket_that_came_back_meanwhile_is_not_told(patient: Lent) -> None:
    patient.lend()
    patient.far.sendall(named())
    assert select.select([patient.pipe[0]], [], [], DEADLINE_S)[0]
    assert patient.taken_back() == (b"", named(), False)
    assert patient.it.asked() == ([], False)


def test_a_named_half_that_failed_says_that_it_was_named(lent: Lent) -> None:
    lent.lend()
    lent.far.sendall(named())
    lent.until(lambda: lent.asked)
    lent.it.store([1])
    lent.until(lambda: lent.failures and lent.due)
    (failed,) = lent.failures
    assert (failed.transaction_id, failed.is_named) == (UNIQUE, True)


def test_a_name_that_was_decided_here_a_moment_ago_is_the_loops(patient: Lent) -> None:
    patient.lend()
    partition = crc32(b"T1") % 4
    handle = CODEC.encode(Handle(partition, "g", "T1", (17,), ("orders",)))
    patient.it.opened("g", "T1", 17, 0.5, None)
    patient.far.sendall(request("POST", f"/v1/transactions/{handle}/rollback"))
    patient.until(lambda: patient.it.under_way() == 1)
    own, far = socket.socketpair()
    with own, far:
        own.setblocking(False)
        patient.it.connect(2, b"localhost")
        assert patient.it.lend(2, own.fileno(), 100)
        far.sendall(named("T1"))
        patient.until(lambda: 2 in patient.due)
        assert patient.it.take_back(2).held == named("T1")
    assert patient.asked == []


def test_a_transaction_that_is_prepared_again_is_not_open_until_that_is_stored(
    patient: Lent,
) -> None:
    patient.lend()
    patient.it.opened("g", "T1", 17, 0.5, None)
    own, far = socket.socketpair()
    with own, far:
        own.setblocking(False)
        patient.it.connect(2, b"localhost")
        assert patient.it.lend(2, own.fileno(), 100)
        far.sendall(named("T1"))
        patient.until(lambda: patient.asked)
        patient.far.sendall(end())
        patient.until(lambda: 1 in patient.due)
        assert patient.taken_back() == (b"", end(), False)


def test_room_that_is_taken_is_refused_to_a_name_too(patient: Lent) -> None:
    patient.lend(room=0)
    patient.far.sendall(named())
    patient.until(lambda: patient.due)
    assert patient.taken_back() == (b"", named(), False)
    assert patient.asked == []


def test_more_than_there_is_room_for_comes_back(patient: Lent) -> None:
    patient.lend(room=0)
    patient.far.sendall(half())
    patient.until(lambda: patient.due)
    assert patient.taken_back() == (b"", half(), False)


def test_more_bytes_than_there_is_room_for_come_back(patient: Lent) -> None:
    own, far = socket.socketpair()
    with own, far:
        own.setblocking(False)
        patient.lend()
        patient.it.connect(2, b"localhost")
        patient.it.connect(3, b"localhost")
        patient.far.sendall(half(b"x" * 9_990))
        patient.until(lambda: patient.it.under_way() == 1)
        assert patient.it.lend(2, own.fileno(), 100)
        far.sendall(half(b"x" * 9_990))
        patient.until(lambda: patient.it.under_way() == 2)
        assert patient.it.take_back(2).is_busy
        assert patient.it.lend(3, own.fileno(), 100)
        far.sendall(half(b"x" * 100))
        patient.until(lambda: 3 in patient.due)
        assert patient.it.take_back(3).held == half(b"x" * 100)


def test_an_unfinished_request_lingers_and_comes_back(patient: Lent) -> None:
    patient.lend()
    patient.far.sendall(half()[:-1])
    patient.until(lambda: patient.it.lingering() == [1])
    assert patient.taken_back() == (b"", half()[:-1], False)
    assert patient.it.lingering() == []


def test_the_end_of_a_connection_is_the_loops_to_notice(patient: Lent) -> None:
    patient.lend()
    patient.far.close()
    patient.until(lambda: patient.due)
    assert patient.taken_back() == (b"", b"", False)


def test_an_end_is_taken_once_and_only_of_what_was_opened(patient: Lent) -> None:
    patient.lend()
    patient.it.opened("g", "T1", 17, 0.5, None)
    patient.far.sendall(end())
    patient.until(lambda: patient.it.under_way() == 1)
    [first] = patient.it.decisions(1, "g", "T1")
    assert (first.is_commit, first.is_stored, first.op_offset) == (True, None, None)
    patient.far.sendall(end("rollback"))
    assert patient.taken_back()[0] == b""


def test_a_roll_back_whose_fate_nobody_knows_was_forgotten(lent: Lent) -> None:
    """A half under its name was taken again, its commit answered, and its message dropped."""
    lent.lend()
    for name, what in (("T1", "rollback"), ("T2", "commit")):
        assert not lent.it.was_rolled_back(1, "g", name)
        lent.it.opened("g", name, 17, 0.1, None)
        lent.far.sendall(end(what, name=name))
        lent.until(lambda: lent.failures)
        assert [failed.error_number for failed in lent.failures] == [TIMED_OUT]
        lent.failures.clear()
        lent.taken_back()
        lent.lend()
    assert lent.it.was_rolled_back(1, "g", "T1")
    assert not lent.it.was_rolled_back(2, "g", "T1"), "another half partition"
    assert not lent.it.was_rolled_back(1, "g", "T2")
    assert not lent.it.was_rolled_back(4, "g", "T1"), "there is none"


@pytest.mark.parametrize(
    "why",
    ["looked at", "another half", "no immunity", "other key", "heard of", "taken over", "long ago",
     "not stored", "no room"],
)  # fmt: skip
def test_an_end_of_what_the_loop_may_know_more_of_is_the_loops(patient: Lent, why: str) -> None:
    patient.lend(room=1)
    if why != "not stored":
        patient.it.opened(
            "g", "T1", 18 if why == "another half" else 17, 50.0 if why == "long ago" else 0.1,
            0 if why == "no immunity" else None,
        )  # fmt: skip
    if why == "heard of":
        patient.it.heard([("g", "T0"), ("g", "T1")])
    if why == "taken over":
        patient.it.close_all()
    if why == "no room":
        patient.it.tell(1)
    if why == "looked at":
        assert patient.it.decisions(1, "g", "T1") is None
    if why == "other key":
        patient.it.open(4, 1, *HandleCodec([b"another key, longer"], "a cluster").signer)
    patient.far.sendall(end())
    patient.until(lambda: patient.due)
    assert patient.taken_back() == (b"", end(), False)
    assert patient.it.decisions(1, "g", "T1") is None


@pytest.mark.parametrize(
    ("age_s", "asked_s", "is_native"),
    [(7.0, None, True), (10.1, None, False), (3.0, 5, True), (4.1, 5, False), (10.1, 100, False)],
)
def test_four_fifths_of_an_immunity_were_taken_twice(
    patient: Lent, age_s: float, asked_s: int | None, *, is_native: bool
) -> None:
    """Ends without an immunity of their own went to the loop after 3.84 of 6 seconds."""
    patient.lend()
    patient.it.opened("g", "T1", 17, age_s, asked_s)
    patient.far.sendall(end())
    patient.until(lambda: patient.it.under_way() == 1 if is_native else patient.due)


def test_the_loops_requests_and_those_of_native_threads_have_one_bound(patient: Lent) -> None:
    assert patient.it.admit(1, 2)
    assert not patient.it.admit(2, 2)
    patient.lend(room=3)
    patient.far.sendall(half())
    patient.until(lambda: patient.it.under_way() == 1)
    assert not patient.it.admit(2, 3), "two of the loop's, one of its own"
    assert patient.it.admit(1, 3)
    assert patient.taken_back() == (b"", b"", True)
    own, far = socket.socketpair()
    with own, far:
        own.setblocking(False)
        patient.it.connect(2, b"localhost")
        assert patient.it.lend(2, own.fileno(), 3)
        far.sendall(half())
        patient.until(lambda: 2 in patient.due)
        assert patient.it.take_back(2).held == half(), "the loop has two, and one is here"
        patient.it.tell(1)
        assert patient.it.lend(2, own.fileno(), 3)
        far.sendall(half())
        patient.until(lambda: patient.it.under_way() == 2)
        patient.it.take_back(2)


def test_what_is_prepared_is_told_when_it_is_stored_and_not_before(patient: Lent) -> None:
    patient.lend()
    patient.far.sendall(half())
    patient.until(lambda: patient.it.under_way() == 1)
    assert patient.it.prepared() == []
