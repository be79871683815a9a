"""halfhitch-native over a Kafka that is not there: nothing is lost, and nothing stays under way."""

from __future__ import annotations

import itertools
import time
from dataclasses import fields
from struct import Struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfhitch.adapters.native import carrier
from halfhitch.doors.rocketmq import native as values
from halfhitch.errors import KafkaUnavailable, OutcomeUnknown
from halfhitch.wire.remoting import codes
from halfhitch.wire.seal import Seals
from harness.native import native, needs_native
from harness.native_carrier import (
    PARTITIONS,
    PREFIX,
    QUEUE_FULL,
    SEALS,
    TIMED_OUT,
    Carried,
    end,
    half,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

PURGED = (-151, -152)


# -- what the adapter makes of settings and numbers ----------------------------------------------


def test_settings_are_told_as_librdkafka_writes_them() -> None:
    config = {"enable.idempotence": True, "socket.keepalive.enable": False, "linger.ms": 0}
    assert carrier.native_options({**config, "acks": "all"}) == [
        ("enable.idempotence", "true"),
        ("socket.keepalive.enable", "false"),
        ("linger.ms", "0"),
        ("acks", "all"),
    ]


@pytest.mark.parametrize("name", ["oauth_cb", "sasl.oauthbearer.config", "sasl.oauthbearer.method"])
def test_what_calls_back_into_python_does_not_fit(name: str) -> None:
    assert carrier.native_options({"acks": "all", name: "x"}) is None


def test_numbers_of_librdkafka_mean_what_they_mean_to_the_twin() -> None:
    assert isinstance(carrier.native_error(QUEUE_FULL, "half"), KafkaUnavailable)
    assert isinstance(carrier.native_error(TIMED_OUT, "half"), OutcomeUnknown)
    assert isinstance(carrier.native_error(PURGED[1], "half"), OutcomeUnknown)
    assert "half" in carrier.native_error(TIMED_OUT, "half").message


# -- the carrier ---------------------------------------------------------------------------------


@needs_native
@pytest.mark.parametrize(
    "kind",
    [values.Events, values.Failed, values.Fed, values.Decided, values.Line, values.Progress,
     values.TakenBack, values.Unread],
)  # fmt: skip
def test_its_values_have_the_fields_that_the_door_reads(kind: type) -> None:
    made = getattr(native, kind.__name__)
    public = {name for name in dir(made) if not name.startswith("_")}
    assert public == {each.name for each in fields(kind)}


@pytest.fixture
def carried() -> Iterator[Carried]:
    made = Carried()
    yield made
    made.close()


@pytest.fixture
def patient() -> Iterator[Carried]:
    """One that waits for Kafka longer than any test."""
    made = Carried(delivery_ms=60_000)
    yield made
    made.close()


@pytest.fixture(scope="module")
def cutter() -> Iterator[Carried]:
    """For streams of which nothing is taken; each test has connections of its own."""
    made = Carried()
    yield made
    made.close()


@needs_native
def test_what_would_be_too_many_bytes_under_way_is_the_loops_until_there_is_room() -> None:
    """Messages under way were bounded in number only: 10,000 of a megabyte each."""
    carried = Carried(in_flight_bytes_max=2_000)
    carried.join(1)
    halves = [half(n, f"U{n}", body=bytes(900)) for n in range(4)]
    rest, begun_count, _ = carried.feed(1, b"".join(halves))
    assert (rest, begun_count) == (b"".join(halves[2:]), 2)
    assert carried.feed(1, end(10, "U0")) == (b"", 1, 0)  # ends are small, and make room
    carried.until_failed(3)
    rest, begun_count, _ = carried.feed(1, b"".join(halves[2:]))
    assert (rest, begun_count) == (b"", 2)
    carried.until_failed(5)
    carried.close()


@needs_native
def test_every_request_that_was_taken_is_reported_when_kafka_is_away(carried: Carried) -> None:
    carried.join(1)
    halves = [half(n, f"U{n}") for n in range(50)]
    ends = [end(50 + n, f"U{n}", 8 if n % 3 else 12) for n in range(50)]
    assert carried.feed(1, b"".join(halves + ends)) == (b"", 100, 0)
    carried.until_failed(100)
    kinds = {(one.request_code, one.connection, one.opaque) for one in carried.failures}
    assert kinds == {
        *((codes.SEND_MESSAGE_V2, 1, n) for n in range(50)),
        *((codes.END_TRANSACTION, 1, 50 + n) for n in range(50)),
    }
    assert len(carried.failures) == 100
    assert {one.error_number for one in carried.failures} == {TIMED_OUT}


def of_one_partition(count: int) -> list[str]:
    names = (f"U{n}" for n in itertools.count())
    wanted = native.partition("U0", PARTITIONS)
    mine = (name for name in names if native.partition(name, PARTITIONS) == wanted)
    return list(itertools.islice(mine, count))


@needs_native
def test_what_waits_behind_a_record_on_its_way_is_reported_too(carried: Carried) -> None:
    carried.join(1)
    one, other = of_one_partition(2)
    assert carried.feed(1, half(1, one) + end(2, one))[1] == 2
    assert carried.feed(1, half(3, other) + end(4, other, 12))[1] == 2
    carried.until_failed(4)
    assert sorted(one.opaque for one in carried.failures) == [1, 2, 3, 4]


@needs_native
def test_what_librdkafka_has_no_room_for_is_reported_at_once() -> None:
    carried = Carried(delivery_ms=60_000, queue_buffering_max_messages=2)
    try:
        carried.join(1)
        halves = b"".join([half(n, f"U{n}") for n in range(10)])
        assert carried.feed(1, halves)[1] == 10
        carried.until_failed(8)
        assert {one.error_number for one in carried.failures} == {QUEUE_FULL}
        carried.feed(1, end(10, "U1"))
        carried.until_failed(9)
        carried.it.stop(0)
        carried.catch_up()
        assert sorted(one.opaque for one in carried.failures) == list(range(11))
    finally:
        carried.close()


@needs_native
def test_a_client_that_left_is_not_waited_for(carried: Carried) -> None:
    carried.join(1)
    carried.feed(1, half(1, "U1"))
    carried.it.disconnect(1)
    carried.until_failed(1)
    assert carried.feed(1, half(2, "U2")) == (half(2, "U2"), 0, 0)


@needs_native
def test_decisions_are_known_while_they_are_on_their_way_and_when_nobody_knows_their_fate(
    carried: Carried,
) -> None:
    carried.join(1)
    carried.feed(1, end(1, "U1", 12) + end(2, "U1", 8))
    known = carried.it.decisions(1, "p", "U1")
    assert [(one.is_commit, one.is_stored) for one in known] == [(False, None), (True, None)]
    assert carried.it.decisions(1, "p", "U2") is None
    assert carried.it.decisions(2, "p", "U1") is None
    assert carried.it.decisions(PARTITIONS, "p", "U1") is None
    carried.until_failed(2)
    known = carried.it.decisions(1, "p", "U1")
    assert [(one.is_commit, one.is_stored) for one in known] == [(False, False), (True, False)]


@needs_native
def test_an_end_of_what_the_loop_has_looked_at_overtook_the_loops_decision(
    carried: Carried,
) -> None:
    """An answer to a check, or an operator, was told that it stands, and lay behind it."""
    carried.join(1)
    assert carried.it.decisions(1, "p", "U1") is None
    late, another = end(1, "U1", 12), end(2, "U2", 8)
    assert carried.feed(1, late + another) == (late, 1, 0)
    again = half(3, "U1")
    assert carried.feed(1, again) == (again, 0, 0), "it is being rolled back"


@needs_native
def test_after_a_rollback_the_twin_is_asked_about_the_same_id(carried: Carried) -> None:
    carried.join(1)
    carried.feed(1, end(1, "U1", 12))
    assert carried.feed(1, half(2, "U1")) == (half(2, "U1"), 0, 0)
    assert carried.feed(1, half(3, "U2"))[1] == 1


@needs_native
def test_a_message_under_an_id_that_is_known_is_the_twins(carried: Carried) -> None:
    carried.join(1)
    assert carried.feed(1, half(1, "U1"))[1] == 1
    for again in (half(2, "U1"), half(3, "U1", body=b"another")):
        assert carried.feed(1, again) == (again, 0, 0)
    assert not carried.it.claim("p", "U1", 17)
    assert carried.it.claim("other", "U1", 17)


@needs_native
def test_what_the_twin_takes_is_known_here(carried: Carried) -> None:
    carried.join(1)
    assert carried.it.claim("p", "U1", 17)
    assert carried.it.claim("p", "U1", 17)
    assert carried.feed(1, half(1, "U1"))[1:] == (0, 0)


@needs_native
def test_a_half_under_an_id_whose_owner_has_read_a_roll_back_is_the_twins(
    carried: Carried,
) -> None:
    """It was acknowledged and then dropped: after a restart nothing else knew of it."""
    carried.join(1)
    carried.it.rolled_back([("p", "U1"), ("other", "U2")])
    assert carried.feed(1, half(1, "U1")) == (half(1, "U1"), 0, 0)
    assert carried.feed(1, half(2, "U2"))[1] == 1


# -- stop ----------------------------------------------------------------------------------------


@needs_native
def test_stop_keeps_to_its_time_and_reports_what_it_gives_up(patient: Carried) -> None:
    patient.join(1)
    assert patient.feed(1, half(1, "U1") + end(2, "U1"))[1] == 2
    began_s = time.monotonic()
    patient.it.stop(0.2)
    assert time.monotonic() - began_s < 5
    patient.catch_up()
    assert sorted(one.opaque for one in patient.failures) == [1, 2]
    assert all(one.error_number in PURGED for one in patient.failures)


@needs_native
def test_what_waits_behind_a_record_on_its_way_is_reported_by_stop(
    patient: Carried,
) -> None:
    patient.join(1)
    for opaque, unique in enumerate(of_one_partition(3), 1):  # the later ones wait
        assert patient.feed(1, half(opaque, unique))[1] == 1
    for opaque in range(100, 300):  # more than gather: the first record leaves at once
        assert patient.feed(1, end(opaque, f"U{opaque}", 8 if opaque % 2 else 12))[1] == 1
    patient.it.stop(0)
    patient.catch_up()
    assert sorted(one.opaque for one in patient.failures) == [1, 2, 3, *range(100, 300)]


@needs_native
@pytest.mark.parametrize("drain_s", [-1.0, float("inf"), float("nan")])
def test_a_time_that_is_none_does_not_end_the_process(carried: Carried, drain_s: float) -> None:
    carried.it.stop(drain_s)
    carried.it.stop(drain_s)


@needs_native
def test_after_stop_everything_is_given_back_and_so_is_what_was_held(carried: Carried) -> None:
    carried.join(1)
    first, second = half(1, "U1"), half(2, "U2")
    assert carried.feed(1, first[:40]) == (b"", 0, 40)
    carried.it.stop(0)
    assert carried.feed(1, first[40:] + second[:9]) == (first + second[:9], 0, 0)
    assert carried.feed(1, second[9:]) == (second[9:], 0, 0)
    carried.catch_up()
    assert carried.failures == []


# -- what is taken -------------------------------------------------------------------------------


@needs_native
def test_no_more_is_taken_than_there_is_room_for(carried: Carried) -> None:
    carried.join(1)
    frames = [half(1, "U1"), end(2, "U1"), half(3, "U3")]
    assert carried.feed(1, b"".join(frames), room=0) == (b"".join(frames), 0, 0)
    assert carried.feed(1, b"".join(frames), room=2) == (frames[2], 2, 0)


@needs_native
def test_without_room_an_unfinished_frame_is_held_and_given_back_whole(carried: Carried) -> None:
    carried.join(1)
    frame = half(1, "U1")
    assert carried.feed(1, frame[:3], room=0) == (b"", 0, 3)
    assert carried.feed(1, frame[3:50], room=0) == (b"", 0, 50)
    assert carried.feed(1, frame[50:], room=0) == (frame, 0, 0)


@needs_native
def test_a_frame_that_began_before_it_was_allowed_is_taken_when_it_is_whole(
    carried: Carried,
) -> None:
    carried.it.connect(1, PREFIX)
    frame = half(1, "U1")
    assert carried.feed(1, frame[:20]) == (b"", 0, 20)
    carried.it.allow(1, "p", "t", "p", "t", 3)
    assert carried.feed(1, frame[20:]) == (b"", 1, 0)


@needs_native
def test_only_what_is_allowed_is_taken_until_it_is_forgotten(carried: Carried) -> None:
    carried.join(1)
    carried.it.connect(2, PREFIX)
    for connection, frame in (
        (2, half(1, "U1")),
        (1, half(1, "U1", group="q")),
        (1, half(1, "U1", topic="u")),
        (1, end(1, "U1", group="q")),
        (1, end(1, "U1", partition=PARTITIONS)),
        (3, half(1, "U1")),
    ):
        assert carried.feed(connection, frame) == (frame, 0, 0)
    assert carried.feed(1, half(1, "U1"))[1] == 1
    carried.it.forget()
    assert carried.feed(1, half(2, "U2")) == (half(2, "U2"), 0, 0)


@needs_native
def test_an_end_whose_numbers_were_made_up_is_the_twins_to_refuse(carried: Carried) -> None:
    """It decided, whoever had sent it: half offsets are counted upwards."""
    carried.join(1)
    forged = [
        end(1, "U1", seal=17),
        end(2, "U1", seal=0),
        end(3, "U1", seal=SEALS.make(1, 17, "p", "U2")),
        end(4, "U1", seal=SEALS.make(1, 17, "q", "U1")),
        end(5, "U1", seal=SEALS.make(2, 17, "p", "U1")),
        end(6, "U1", seal=Seals([b"another key"]).make(1, 17, "p", "U1")),
    ]
    for rolled_back in (8, 12):
        data = b"".join(forged) + end(7, "U1", rolled_back, seal=1)
        assert carried.feed(1, data) == (data, 0, 0)
    assert carried.feed(1, half(8, "U1"))[1] == 1, "it was not rolled back"
    assert carried.it.decisions(1, "p", "U1") is None
    assert carried.feed(1, end(9, "U2"))[1] == 1


@needs_native
def test_as_long_as_nothing_can_be_sealed_nothing_is_taken(carried: Carried) -> None:
    carried.join(1)
    carried.it.open(PARTITIONS, [])
    data = half(1, "U1") + end(2, "U1")
    assert carried.feed(1, data) == (data, 0, 0)
    carried.it.open(PARTITIONS, [b"a new key", *SEALS.keys])
    assert carried.feed(1, data)[1] == 2, "a key that is being changed"


@needs_native
@pytest.mark.parametrize("group", ['pay"ments', "pay\\ments", "päyments"])
def test_a_group_that_json_writes_differently_breaks_no_record_of_decisions(
    carried: Carried, group: str
) -> None:
    carried.join(1, group=group)
    frames = half(1, "U1", group=group) + end(2, "U1", group=group)
    assert carried.feed(1, frames) == (frames, 0, 0)


# -- frames --------------------------------------------------------------------------------------

FRAMES = st.one_of(
    st.builds(half, st.integers(0, 99), st.sampled_from(["U1", "U2"])),
    st.builds(end, st.integers(0, 99), st.sampled_from(["U1", "U2"])),
    st.binary(min_size=4, max_size=60).map(
        lambda content: Struct(">i").pack(len(content)) + content
    ),
)
CUTS = st.lists(st.integers(1, 300), min_size=1, max_size=30)
_numbers = iter(range(1, 10**9))


def pieces(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        for size in cuts:
            if at < len(data):
                yield data[at : at + size]
            at += size


@needs_native
@settings(deadline=None)
@given(frames=st.lists(FRAMES, max_size=8), cuts=CUTS, tail=st.integers(0, 3))
def test_however_a_stream_is_cut_what_is_not_taken_comes_back_as_it_was(
    cutter: Carried, frames: list[bytes], cuts: list[int], tail: int
) -> None:
    number = next(_numbers)
    cutter.it.connect(number, PREFIX)
    whole, unfinished = b"".join(frames), half(1, "U9")[:tail]
    back, held_bytes = b"", 0
    given_bytes = 0
    for piece in pieces(whole + unfinished, cuts):
        rest, taken, held_bytes = cutter.feed(number, piece)
        given_bytes += len(piece)
        back += rest
        assert taken == 0
        assert len(back) + held_bytes == given_bytes  # nothing is lost on the way
    assert back == whole
    assert held_bytes == tail
    cutter.it.disconnect(number)


@needs_native
@settings(deadline=None, max_examples=30)
@given(frames=st.lists(FRAMES, max_size=8), cuts=CUTS)
def test_however_a_stream_is_cut_the_same_requests_are_taken(
    frames: list[bytes], cuts: list[int]
) -> None:
    found: list[tuple[bytes, int]] = []
    for sizes in ([10**6], cuts):
        carried = Carried()  # a new one each time: an id is taken once
        try:
            carried.join(1)
            back, count = b"", 0
            for piece in pieces(b"".join(frames), sizes):
                rest, taken, _ = carried.feed(1, piece)
                back, count = back + rest, count + taken
            found.append((back, count))
            carried.it.stop(0)
            carried.catch_up()
            assert len(carried.failures) == count
        finally:
            carried.close()
    assert found[0] == found[1]


@needs_native
@pytest.mark.parametrize(
    "broken",
    [b"\x00\x00\x00\x03abc", b"\xff\xff\xff\xff", (100_001).to_bytes(4, "big"), b"GET / HTTP/1.1"],
)
def test_a_frame_that_is_none_is_given_back_with_all_that_follows(
    carried: Carried, broken: bytes
) -> None:
    carried.join(1)
    assert carried.feed(1, half(1, "U1") + broken + half(2, "U2")) == (broken + half(2, "U2"), 1, 0)
    assert carried.feed(1, half(3, "U3")) == (half(3, "U3"), 0, 0)


@needs_native
def test_a_broken_frame_that_comes_in_pieces_is_given_back_from_its_first_byte(
    carried: Carried,
) -> None:
    carried.join(1)
    assert carried.feed(1, half(1, "U1") + b"\xff\xff") == (b"", 1, 2)
    assert carried.feed(1, b"\xff\xffabc") == (b"\xff\xff\xff\xffabc", 0, 0)
