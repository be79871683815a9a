"""The native way through the data door, over a carrier that does what a test says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.core.model import (
    DecisionRead,
    DoneRead,
    OpOffset,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TimestampMs,
    TransactionId,
)
from halfhitch.doors.http.lending import Lending
from halfhitch.doors.http.native import Decided, Line
from halfhitch.errors import KafkaUnavailable, OutcomeUnknown
from halfhitch.service.api import Prepared
from harness.defaults import http_limits
from harness.identities import access_with
from harness.raw_http import Client, json_post, raw_half, request, until
from harness.scripted_http_native import ScriptedHttpNative
from harness.twin import RecordingObserver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from halfhitch.doors.http import HttpDoor

ROLLBACK = "/v1/transactions/h.0/rollback"
ANSWER = b"HTTP/1.1 201 Created\r\nContent-Length: 6\r\n\r\nnative"
T1 = ProducerGroup("g"), TransactionId("T1")
GONE, UNKNOWN = 1, 2
DECIDED = DecisionRead(
    OpOffset(1), TimestampMs(0), T1, Resolution.ROLLBACK, 1, ResolutionSource.PRODUCER
)


class Rig:
    """A door with a scripted carrier."""

    def __init__(self, doors: Any) -> None:
        self.doors = doors
        self.observer = RecordingObserver()
        self.told: list[tuple[str, int, list[float]]] = []
        self.counted: list[tuple[str, int]] = []
        self.disowned: list[object] = []
        self.claimed: list[tuple[int, object, int]] = []
        self.unclaimed: list[tuple[object, str]] = []
        self.is_new = True
        self.lines: list[tuple[int, str, str]] = []
        self.traced: list[tuple[float, bytes]] = []
        self.free = self.undecided = True
        self.failure: RuntimeError | None = None
        self.made: list[ScriptedHttpNative] = []
        self.lending = Lending(
            self._make,
            observer=self.observer,
            on_requests=self._count,
            owner_read_to={0: 17}.get,
            partition_count=lambda: 2,
            preferred_partition=lambda count: count - 1,
            signer=lambda: (b"key", b"person"),
            target_partitions=lambda topic: 3 if topic == "orders" else None,
            is_free=lambda *_: self.free,
            is_open=lambda *_: self.undecided,
            claim=self._claim,
            unclaim=lambda identity, error: self.unclaimed.append((identity, error.code)),
            disown=lambda *what: self.disowned.append(what),
            error_of=lambda _, number: (
                OutcomeUnknown("nobody knows") if number == UNKNOWN else KafkaUnavailable("away")
            ),
            traced=lambda *said: self.traced.append(said),
            log=lambda *line: self.lines.append(line),
        )
        self.door: HttpDoor | None = None

    def _make(self, *, wake: tuple[int, int]) -> ScriptedHttpNative:
        if self.failure is not None:
            raise self.failure
        self.made.append(ScriptedHttpNative(wake))
        return self.made[-1]

    def _claim(self, *what: Any) -> bool:
        self.claimed.append(what)
        return self.is_new

    def _count(self, route: str, status: int, elapsed_s: Sequence[float]) -> None:
        self.told.append((route, status, list(elapsed_s)))

    @property
    def native(self) -> ScriptedHttpNative:
        return self.made[-1]

    async def open(self, **settings: Any) -> HttpDoor:
        self.door = await self.doors.open(
            lending=self.lending,
            on_request=lambda route, status, *_: self.counted.append((route, status)),
            **settings,
        )
        return self.door

    async def lent(self, **settings: Any) -> Client:
        """A client whose socket is lent."""
        client: Client = await self.doors.client(self.door or await self.open(**settings))
        assert (await client.ask(raw_half())).status == 201
        await until(lambda: self.native.lent)
        return client

    async def until_under_way(self) -> None:
        await until(lambda: self.native.busy)


@pytest.fixture
async def rig(doors: Any) -> Rig:
    return Rig(doors)


def prepare(count: int = 1, **more: object) -> bytes:
    message = {"topic": "orders", "value": "v"}
    body = {"producer_group": "g", "messages": [message] * count, **more}
    return json_post("/v1/transactions", body)


def stored(rig: Rig, group: str, name: str, *, topic: str = "orders", **how: Any) -> None:
    prepared = Prepared(name, "h", half_offsets=(17,))
    how = {"named": None, "immunity_s": None, **how}
    rig.lending.stored(group, topic, prepared, age_s=0.5, **how)


# -- there and back ------------------------------------------------------------------------------


async def test_after_a_half_the_socket_is_lent_and_the_answer_to_the_next_one_arrives(
    rig: Rig,
) -> None:
    client = await rig.lent()
    assert rig.native.connected == {1: b"localhost"}
    assert rig.native.allowed == [("g", "orders")]
    assert rig.native.opened_with == (2, 1, b"key", b"person")
    await client.send(raw_half(b"second"))
    await rig.until_under_way()
    rig.lending.look()
    assert rig.door is not None
    assert rig.door.in_flight_count == 1
    assert rig.native.came == [raw_half(b"second")]
    rig.native.traced = [(0.25, b"what its traceparent said")]
    rig.native.finish(ANSWER)
    assert (await client.answer("POST")).body == b"native"
    await until(lambda: rig.told)
    assert rig.told == [("half", 201, [0.25])]
    assert rig.traced == [(0.25, b"what its traceparent said")]
    assert rig.observer.of("all_prepared")[-1] == ([0.25],)
    assert rig.door.in_flight_count == 0
    assert rig.counted == [("half", 201)]


async def test_after_a_prepare_of_one_message_as_json_the_socket_is_lent(rig: Rig) -> None:
    client = await rig.doors.client(await rig.open())
    assert (await client.ask(prepare())).status == 201
    await until(lambda: rig.native.lent)
    assert rig.native.allowed == [("g", "orders")]
    await client.send(prepare())
    await rig.until_under_way()
    assert rig.native.came == [prepare()]
    rig.native.finish(ANSWER, is_json=True)
    assert (await client.answer("POST")).body == b"native"
    await until(lambda: rig.told)
    assert rig.told == [("prepare", 201, [0.25])]
    assert rig.observer.of("all_prepared") == [([0.25],)]


@pytest.mark.parametrize("more", [{"transaction_id": "T9"}, {"count": 2}])
async def test_after_a_prepare_whose_end_is_the_loops_nothing_is_lent(
    rig: Rig, more: dict[str, Any]
) -> None:
    client = await rig.doors.client(await rig.open())
    assert (await client.ask(prepare(**more))).status == 201
    await asyncio.sleep(0.05)
    assert not rig.native.lent
    assert rig.native.allowed == ([("g", "orders")] if "transaction_id" in more else [])


async def test_an_end_is_counted_as_one(rig: Rig) -> None:
    client = await rig.lent()
    await client.send(request("POST", ROLLBACK))
    await rig.until_under_way()
    rig.native.finish(ANSWER, ended=True)
    assert (await client.answer("POST")).body == b"native"
    await until(lambda: rig.told)
    assert rig.told == [("commit", 200, [0.25])]
    expected = (Resolution.COMMIT, ResolutionSource.PRODUCER, [0.25])
    assert rig.observer.of("all_ended")[-1] == expected


async def test_a_transaction_that_was_named_is_not_lent_for_before_its_end(rig: Rig) -> None:
    client = await rig.doors.client(await rig.open())
    named = raw_half(b"v", ("Half-Transaction-Id", "T9"))
    assert (await client.ask(named)).status == 201
    await asyncio.sleep(0.05)
    assert not rig.native.lent
    assert (await client.ask(request("POST", ROLLBACK))).status == 200
    await until(lambda: rig.native.lent)


@pytest.mark.parametrize(
    "asked",
    [request("POST", ROLLBACK + "?source=check"), request("GET", "/v1/transactions/h.0"),
     raw_half(b"v", ("Connection", "close"))],
    ids=["a check's answer", "a view", "the last"],
)  # fmt: skip
async def test_other_requests_lend_nothing(rig: Rig, asked: bytes) -> None:
    client = await rig.doors.client(await rig.open())
    assert (await client.ask(raw_half(b"v", ("Half-Transaction-Id", "T9")))).status == 201
    await client.ask(asked)
    await asyncio.sleep(0.05)
    assert not rig.native.lent


async def test_what_is_odd_comes_back_and_goes_the_usual_way(rig: Rig) -> None:
    client = await rig.lent()
    rig.native.is_odd = True
    assert (await client.ask(request("GET", "/nowhere"))).status == 404
    assert not rig.native.lent
    assert not rig.native.connected
    assert (await client.ask(raw_half())).status == 201
    assert not rig.native.lent, "not so soon"


async def test_a_part_of_a_request_is_waited_for_after_it_came_back(rig: Rig) -> None:
    client = await rig.lent(limits=http_limits(receive_s=0.3))
    rig.native.is_odd = True
    await client.send(raw_half(b"whole")[:-2])
    await until(lambda: not rig.native.lent)
    assert (await client.answer("POST")).status == 408


async def test_what_comes_behind_a_request_that_is_under_way_waits_for_its_answer(
    rig: Rig,
) -> None:
    client = await rig.lent()
    await client.send(raw_half(b"first"))
    await rig.until_under_way()
    await client.send(request("GET", "/nowhere"))
    await until(lambda: rig.native.held)
    (number,) = rig.native.lent
    rig.native.let_go(number)
    await until(lambda: not rig.native.lent)
    await asyncio.sleep(0.02)
    rig.native.finish(ANSWER)
    assert (await client.answer("POST")).body == b"native"
    assert (await client.answer()).status == 404
    assert not rig.native.connected
    assert rig.counted == [("half", 201), ("unmatched", 404)]


async def test_what_was_not_sent_is_sent_before_what_comes_later(rig: Rig) -> None:
    client = await rig.lent()
    (number,) = rig.native.lent
    rig.native.unsent[number] = ANSWER
    rig.native.is_odd = True
    await client.send(request("GET", "/nowhere"))
    assert (await client.answer("POST")).body == b"native"
    assert (await client.answer()).status == 404


async def test_an_unfinished_request_is_the_loops_after_a_while(rig: Rig) -> None:
    await rig.lent()
    (number,) = rig.native.lent
    rig.native.idle = [number]
    rig.lending.look()
    assert not rig.native.lent


async def test_a_carrier_that_cannot_borrow_changes_nothing(rig: Rig) -> None:
    client = await rig.doors.client(await rig.open())
    rig.native.is_borrowing = False
    for _ in range(3):
        assert (await client.ask(raw_half())).status == 201
    assert not rig.native.connected


# -- names ---------------------------------------------------------------------------------------


async def test_a_name_of_which_nothing_is_known_is_claimed_and_stored_natively(rig: Rig) -> None:
    client = await rig.lent()
    await client.send(raw_half(b"v", ("Half-Transaction-Id", "T1")))
    await rig.until_under_way()
    rig.native.ask("T1", digest=9)
    await until(lambda: rig.native.stored)
    assert rig.claimed == [(1, T1, 9)]
    rig.native.finish(ANSWER)
    assert (await client.answer("POST")).body == b"native"
    assert rig.native.lent


async def test_a_name_that_is_known_is_looked_at_by_the_loop_in_its_turn(rig: Rig) -> None:
    client = await rig.lent()
    rig.is_new = False
    await client.send(raw_half(b"v", ("Half-Transaction-Id", "T1")))
    await rig.until_under_way()
    await client.send(request("GET", "/nowhere"))
    await until(lambda: rig.native.held)
    rig.native.ask("T1")
    made = await client.answer("POST")
    assert (made.status, made.header("half-transaction-id")) == (201, "T1")
    assert (await client.answer()).status == 404
    assert rig.native.stored == []
    assert not rig.native.lent
    assert not rig.native.connected


async def test_a_half_that_waits_for_the_word_when_the_door_stops_is_refused_like_others(
    rig: Rig,
) -> None:
    client = await rig.lent()
    await client.send(raw_half(b"v", ("Half-Transaction-Id", "T1")))
    await rig.until_under_way()
    connection = next(iter(rig.native.busy))
    rig.native.waiting[connection] = rig.native.came.pop()
    assert rig.door is not None
    stopping = asyncio.ensure_future(rig.door.stop(drain_s=0.3))
    refused = await client.answer("POST")
    assert (refused.status, refused.code) == (503, "shutting_down")
    await stopping
    assert rig.claimed == []


@pytest.mark.parametrize(
    ("number", "code"), [(GONE, "kafka_unavailable"), (UNKNOWN, "outcome_unknown")]
)
async def test_what_failed_under_its_callers_name_is_not_rolled_back_but_unclaimed(
    rig: Rig, number: int, code: str
) -> None:
    """Its repetition completes it; or another instance has acknowledged the first try."""
    client = await rig.lent()
    await client.send(raw_half(b"v", ("Half-Transaction-Id", "T1")))
    await rig.until_under_way()
    rig.native.fail(number, is_named=True)
    assert (await client.answer("POST")).code == code
    assert rig.unclaimed == [(T1, code)]
    assert rig.disowned == []


# -- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_back", [True, False], ids=["taken back before", "lent"])
async def test_a_failure_is_answered_in_its_turn(rig: Rig, is_back: bool) -> None:
    client = await rig.lent()
    await client.send(raw_half(b"first"))
    await rig.until_under_way()
    await client.send(request("GET", "/nowhere"))
    await until(lambda: rig.native.held)
    (number,) = rig.native.lent
    if is_back:
        rig.native.let_go(number)
        await until(lambda: not rig.native.lent)
    rig.native.fail(GONE)
    failed = await client.answer("POST")
    assert (failed.status, failed.code) == (503, "kafka_unavailable")
    assert (await client.answer()).status == 404
    assert rig.counted == [("half", 201), ("half", 503), ("unmatched", 404)]
    assert rig.observer.of("prepare_refused") == [("kafka_unavailable",)]
    assert not rig.native.connected
    assert rig.disowned == []


async def test_what_was_perhaps_stored_under_a_name_that_nobody_knows_is_disowned(
    rig: Rig,
) -> None:
    client = await rig.lent()
    await client.send(raw_half(b"first"))
    await rig.until_under_way()
    rig.native.fail(UNKNOWN)
    assert (await client.answer("POST")).code == "outcome_unknown"
    assert rig.disowned == [(1, T1)]


async def test_a_prepare_as_json_that_failed_is_told_as_one(rig: Rig) -> None:
    client = await rig.lent()
    await client.send(prepare())
    await rig.until_under_way()
    rig.native.fail(UNKNOWN, route="prepare")
    refused = await client.answer("POST")
    assert (refused.status, refused.code) == (503, "outcome_unknown")
    assert rig.disowned == [(1, T1)]
    assert rig.observer.of("prepare_refused") == [("outcome_unknown",)]
    assert rig.counted[-1] == ("prepare", 503)


async def test_an_end_that_failed_is_told_as_one(rig: Rig) -> None:
    client = await rig.lent()
    await client.send(request("POST", ROLLBACK))
    await rig.until_under_way()
    rig.native.fail(UNKNOWN, route="commit")
    assert (await client.answer("POST")).code == "outcome_unknown"
    assert rig.observer.of("end_refused") == [("outcome_unknown",)]
    assert rig.counted[-1] == ("commit", 503)


# -- the end of connections, and of the door -----------------------------------------------------


async def test_whoever_goes_away_is_noticed_and_nothing_of_him_is_left(rig: Rig) -> None:
    client = await rig.lent()
    await client.send(raw_half(b"first"))
    await rig.until_under_way()
    await client.close()
    assert rig.door is not None
    await until(lambda: not rig.native.lent)
    await asyncio.sleep(0.05)
    rig.native.finish(ANSWER)
    await until(lambda: not rig.native.connected)
    await until(lambda: rig.door.connection_count == 0)
    assert rig.told == [("half", 201, [0.25])]


async def test_an_idle_connection_is_closed_and_one_that_is_used_is_not(rig: Rig) -> None:
    client = await rig.lent(limits=http_limits(idle_s=0.4))
    for _ in range(4):
        await client.send(raw_half(b"again"))
        await rig.until_under_way()
        await asyncio.sleep(0.15)
        rig.native.finish(ANSWER)
        assert (await client.answer("POST")).body == b"native"
    await client.ended()


async def test_a_door_that_stops_takes_its_sockets_back_and_waits_for_what_was_prepared(
    rig: Rig,
) -> None:
    client = await rig.lent(limits=http_limits(unended_s=60))
    await client.send(raw_half(b"first"))
    await rig.until_under_way()
    assert rig.door is not None
    stopping = asyncio.ensure_future(rig.door.stop(drain_s=10))
    await until(lambda: not rig.native.lent)
    rig.native.finish(ANSWER)
    answer = await client.answer("POST")
    assert (answer.body, answer.header("connection")) == (b"native", "close")
    await asyncio.sleep(0.2)
    assert not stopping.done(), "T1 is open"
    rig.door.hurry()
    await stopping
    assert len(rig.native.stops) == 1
    await rig.door.stop()


async def test_where_a_token_is_asked_for_nothing_is_lent(rig: Rig) -> None:
    client = await rig.doors.client(await rig.open(access=access_with("a-token")))
    assert (await client.ask(raw_half(b"v", ("Half-Token", "a-token")))).status == 201
    assert rig.made == []


async def test_threads_that_do_not_start_are_told_and_nothing_else_changes(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.failure = RuntimeError("no more threads")
    client = await rig.doors.client(await rig.open())
    assert (await client.ask(raw_half())).status == 201
    assert any("no more threads" in line for line in caplog.messages)
    rig.lending.look()
    rig.lending.catch_up()
    rig.lending.heard([DECIDED])
    rig.lending.tell_prepared()
    assert rig.lending.decisions(0, T1) is None


# -- what others must know -----------------------------------------------------------------------


async def test_bounds_of_a_group_and_topics_that_are_gone_end_what_is_allowed(rig: Rig) -> None:
    await rig.lent()
    rig.free = False
    rig.lending.look()
    assert rig.native.allowed == []
    rig.free = True
    rig.lending.look()
    assert rig.native.allowed == [("g", "orders")]
    stored(rig, "g", "T2", immunity_s=30, topic="elsewhere")
    assert rig.native.allowed == [("g", "orders")]
    assert rig.native.opened_ids[-1] == ("g", "T2", 17, 30)
    stored(rig, "g", "T3", named="T3")
    assert len(rig.native.opened_ids) == 1, "of a name that was given more may be known"


async def test_of_very_many_groups_the_latest_go_the_native_way(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halfhitch.doors.http.lending._PAIRS_MAX", 2)
    await rig.open()
    for group in ("a", "b", "b", "c"):
        stored(rig, group, "T", named="T")
    assert rig.native.allowed == [("b", "orders"), ("c", "orders")]


async def test_what_an_owner_reads_as_decided_is_the_loops_to_end(rig: Rig) -> None:
    await rig.open()
    done = DoneRead(OpOffset(2), TimestampMs(0), T1, 1, ())
    rig.lending.heard([done])
    assert rig.native.heard_ids == []
    rig.lending.heard([DECIDED, done])
    assert rig.native.heard_ids == [T1]
    assert rig.native.closed_count == 0
    rig.lending.heard(None)
    assert rig.native.closed_count == 1


async def test_what_was_decided_before_its_prepare_was_told_is_not_open(rig: Rig) -> None:
    await rig.open()
    stored(rig, "g", "T2")
    assert rig.native.heard_ids == []
    rig.undecided = False
    stored(rig, "g", "T3")
    assert [name for _, name, *_ in rig.native.opened_ids] == ["T2", "T3"]
    assert rig.native.heard_ids == [("g", "T3")]


async def test_native_requests_and_those_of_the_loop_have_one_bound(rig: Rig) -> None:
    client = await rig.lent(limits=http_limits(in_flight_count_max=1))
    assert rig.native.room == 1
    assert rig.native.loop_count == 0
    await client.send(raw_half(b"first"))
    await rig.until_under_way()
    rig.native.is_borrowing = False
    other = await rig.doors.client(rig.door)
    refused = await other.ask(raw_half(b"v", ("Half-Transaction-Id", "T9")))
    assert (refused.status, refused.code) == (429, "overloaded")
    assert (await other.ask(request("POST", ROLLBACK))).status == 200, "ends pass"
    assert rig.native.loop_count == 0
    rig.native.finish(ANSWER)
    assert (await client.answer("POST")).body == b"native"
    assert (await other.ask(raw_half(b"v", ("Half-Transaction-Id", "T9")))).status == 201
    assert rig.native.loop_count == 0


async def test_native_threads_hear_of_requests_that_the_loop_has_in_flight(rig: Rig) -> None:
    client = await rig.doors.client(await rig.open())
    assert (await client.ask(raw_half(b"v", ("Half-Transaction-Id", "T9")))).status == 201
    rig.doors.service.hold()
    await client.send(request("POST", ROLLBACK))
    await until(lambda: rig.native.loop_count == 1)
    rig.doors.service.release()
    assert (await client.answer("POST")).status == 200
    assert rig.native.loop_count == 0


async def test_a_look_at_whether_a_body_is_wanted_takes_no_room(rig: Rig) -> None:
    await rig.open()
    client = await rig.doors.client(rig.door)
    whole = raw_half(b"v", ("Expect", "100-continue"))
    await client.send(whole[:-1])
    assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert rig.native.loop_count == 0


async def test_a_stop_does_not_wait_for_what_was_told_as_prepared_behind_its_end(rig: Rig) -> None:
    client = await rig.doors.client(await rig.open(limits=http_limits(unended_s=60)))
    assert (await client.ask(raw_half(b"v", ("Half-Transaction-Id", "T9")))).status == 201
    rig.native.prepared_ids.append("T9")
    answer = await client.ask(request("POST", ROLLBACK))
    assert answer.json()["transaction_id"] == "T9"
    assert rig.native.prepared_ids == []
    assert rig.door is not None
    async with asyncio.timeout(5):
        await rig.door.stop(drain_s=30)


async def test_whoever_sends_what_is_not_for_there_is_lent_less_and_less_often(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halfhitch.doors.http.lending._BETWEEN_LOANS_S", 0.1)
    client = await rig.lent()
    for factor in (2, 4):
        rig.native.is_odd = True
        await client.ask(request("GET", "/nowhere"))
        await asyncio.sleep(0.1)
        assert (await client.ask(raw_half())).status == 201
        assert not rig.native.lent
        rig.native.is_odd = False
        await asyncio.sleep(0.1 * factor)
        assert (await client.ask(raw_half())).status == 201
        await until(lambda: rig.native.lent)
    await client.send(raw_half(b"of use"))
    await rig.until_under_way()
    rig.native.finish(ANSWER)
    assert (await client.answer("POST")).body == b"native"
    await until(lambda: rig.told)
    rig.native.is_odd = True
    await client.ask(request("GET", "/nowhere"))
    await asyncio.sleep(0.15)
    assert (await client.ask(raw_half())).status == 201
    await until(lambda: rig.native.lent)


async def test_decisions_of_the_last_moments_are_told(rig: Rig) -> None:
    await rig.open()
    told = [
        Decided(1, is_commit=True, is_stored=False, op_offset=None),
        Decided(2, is_commit=False, is_stored=True, op_offset=7),
    ]
    rig.native.decided[0, "g", "T1"] = told
    assert rig.lending.decisions(0, T1) == told
    assert rig.lending.decisions(2, T1) is None
    assert rig.native.read_to == [17, -1], "how far owners here have read"


async def test_lines_of_librdkafka_are_logged(rig: Rig) -> None:
    await rig.open()
    rig.native.lines.append(Line(3, "FAIL", "broker down"))
    rig.native.wake()
    await until(lambda: rig.lines)
    assert rig.lines == [(3, "FAIL", "broker down")]
