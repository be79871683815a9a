"""The native way through the door, over a carrier that does what a test says."""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
import struct
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.access import Access
from halfhitch.adapters.native.carrier import native_error
from halfhitch.core.model import (
    ROLLED_BACK,
    DecisionRead,
    DoneRead,
    OpOffset,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TimestampMs,
    TransactionId,
)
from halfhitch.core.partitioning import half_partition
from halfhitch.doors.rocketmq import dispatch
from halfhitch.doors.rocketmq.errors import response_of
from halfhitch.doors.rocketmq.lending import Lending
from halfhitch.doors.rocketmq.native import Decided, Line
from halfhitch.doors.tls import ServerTls, TlsFiles
from halfhitch.wire.burden import Burden, Over
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.frame import Frames, encode, reply, request
from halfhitch.wire.remoting.ids import maker_of
from halfhitch.wire.remoting.requests import Form, Frame
from harness.identities import access, everybody
from harness.redis_servers import certificate
from harness.remoting_client import DEADLINE_S, RemotingClient, Sent
from harness.scripted_native import ScriptedNative

if TYPE_CHECKING:
    from pathlib import Path

    from halfhitch.service.transactions.intake import Intake

GROUP, TOPIC = "g", "orders"
COMMIT, ROLLBACK = 8, 12
TIMED_OUT, QUEUE_FULL, PURGED = -192, -184, -152


class Rig:
    """A door with a scripted carrier."""

    def __init__(self, stage: Any) -> None:
        self.stage = stage
        self.intake: Intake = stage.it.service._parts.intake
        self.lines: list[tuple[int, str, str]] = []
        self.traced: list[tuple[float, bytes]] = []
        self.made: list[ScriptedNative] = []
        self.lending = Lending(
            self._make,
            observer=stage.it.observer,
            owner_read_to={0: 17}.get,
            partition_count=lambda: 2,
            seal_keys=lambda: [b"a key that seals"],
            target_partitions=lambda topic: 3 if topic == TOPIC else None,
            is_free=self.intake.is_free,
            error_of=lambda code, number: native_error(number, "log"),
            traced=lambda *said: self.traced.append(said),
            log=lambda *line: self.lines.append(line),
        )
        self.failure: RuntimeError | None = None
        self.is_borrowing = False

    def _make(self, *, wake: tuple[int, int]) -> ScriptedNative:
        if self.failure is not None:
            raise self.failure
        self.made.append(ScriptedNative(wake))
        self.made[-1].is_borrowing = self.is_borrowing
        return self.made[-1]

    @property
    def native(self) -> ScriptedNative:
        return self.made[-1]

    async def open(self, **options: Any) -> Any:
        return await self.stage.open(lending=self.lending, **options)

    async def connected(self, **options: Any) -> tuple[Any, RemotingClient, Sent]:
        """A door, a client whose messages go the native way from now on, and its first one."""
        door = await self.open(**options)
        client = await self.stage.client(door)
        sent = await client.half(GROUP, TOPIC, b"x", unique="U0")
        assert sent.code == 0, sent.remark
        return door, client, sent

    async def until_under_way(self, count: int) -> None:
        await self.stage.until(lambda: len(self.native.under_way) == count, "so many under way")


@pytest.fixture(params=["read by the loop", "lent"])
async def rig(stage: Any, request: pytest.FixtureRequest) -> Rig:
    made = Rig(stage)
    made.is_borrowing = request.param == "lent"
    return made


def half_bytes(opaque: int, unique: str) -> bytes:
    properties = f"UNIQ_KEY\x01{unique}\x02TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02"
    fields = {"a": GROUP, "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "4",
              "g": "1700000000000", "h": "0", "i": properties, "j": "0", "k": "false",
              "m": "false"}  # fmt: skip
    return encode(request(codes.SEND_MESSAGE_V2, opaque, fields, b"body", form=Form.BINARY))


def answer_to(client: RemotingClient, opaque: int) -> asyncio.Future[Frame]:
    future: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
    client._waiting[opaque] = future
    return future


async def within(future: Any) -> Any:
    return await asyncio.wait_for(future, DEADLINE_S)


# -- there and back ------------------------------------------------------------------------------


async def test_the_second_message_of_a_kind_goes_the_native_way_and_its_answer_arrives(
    rig: Rig,
) -> None:
    door, client, _ = await rig.connected()
    assert rig.native.targets == [(GROUP, TOPIC, 3)]
    assert (rig.native.partition_count, rig.native.seal_keys) == (2, [b"a key that seals"])
    assert rig.native.read_to == [17, -1]
    second = asyncio.ensure_future(client.half(GROUP, TOPIC, b"y", unique="U1"))
    await rig.until_under_way(1)
    assert door.snapshot().in_flight_count == 1
    rig.native.finish()
    assert (await within(second)).fields == {"msgId": "native"}
    assert len(rig.stage.it.halves()) == 1
    assert door.snapshot().in_flight_count == 0
    assert door.snapshot().requests == {("send", 0): 2}
    assert rig.stage.it.observer.of("all_prepared")[-1] == ([0.25],)


async def test_a_prepare_that_belongs_to_a_trace_is_told_with_it(rig: Rig) -> None:
    _, client, _ = await rig.connected()
    second = asyncio.ensure_future(client.half(GROUP, TOPIC, b"y", unique="U1"))
    await rig.until_under_way(1)
    rig.native.traced = [(0.25, b"what its traceparent said")]
    rig.native.finish()
    await within(second)
    assert rig.traced == [(0.25, b"what its traceparent said")]


async def test_one_way_ends_are_counted_when_they_are_stored(rig: Rig) -> None:
    door, client, sent = await rig.connected()
    client.end(GROUP, sent, COMMIT)
    client.end(GROUP, sent, ROLLBACK)
    await rig.until_under_way(2)
    rig.native.finish()
    await rig.stage.until(lambda: door.snapshot().in_flight_count == 0, "the ends")
    assert door.snapshot().requests["end_transaction", 0] == 2
    told = [values[0] for values in rig.stage.it.observer.of("all_ended")]
    assert told == [Resolution.COMMIT, Resolution.ROLLBACK]
    assert rig.stage.it.decided() == []


async def test_what_is_given_back_goes_the_usual_way(rig: Rig) -> None:
    _, client, sent = await rig.connected()
    assert (await client.heartbeat(GROUP)).code == 0
    assert (await client.half("other", TOPIC, b"y", unique="U1")).code == 0
    assert len(rig.stage.it.halves()) == 2
    client.end(GROUP, sent, COMMIT, fromTransactionCheck="true")
    await rig.stage.until(lambda: len(rig.stage.it.decided()) == 1, "the decision")
    assert rig.native.under_way == []


@pytest.mark.parametrize("form", list(Form))
async def test_both_forms_of_header_are_allowed(rig: Rig, form: Form) -> None:
    client = await rig.stage.client(await rig.open(), form=form)
    assert (await client.half(GROUP, TOPIC, b"x", unique="U1")).code == 0
    assert len(rig.native.connected) == 1


async def test_what_is_allowed_is_judged_anew_after_a_second(rig: Rig) -> None:
    _, client, _ = await rig.connected()
    rig.native.is_forgetful = True
    seen = rig.native.forgotten
    await rig.stage.until(lambda: rig.native.forgotten > seen, "what is allowed to be forgotten")
    rig.native.is_forgetful = False
    assert (await client.half(GROUP, TOPIC, b"y", unique="U1")).code == 0
    assert len(rig.stage.it.halves()) == 2
    asked = asyncio.ensure_future(client.half(GROUP, TOPIC, b"z", unique="U2"))
    await rig.until_under_way(1)
    rig.native.finish()
    assert (await within(asked)).code == 0


BURDENS = {
    "a group": (Burden(groups={GROUP: Over(7, 5)}), "too_many_undecided", (GROUP, "7 undecided")),
    "all": (Burden(Over(7, 5)), "too_many_undecided", (GROUP, "7 undecided")),
    "a target": (Burden(topics={TOPIC: Over(7, 5)}), "too_many_waiting", (TOPIC, "7 decided")),
}


@pytest.mark.parametrize(("burden", "code", "words"), BURDENS.values(), ids=BURDENS)
async def test_the_native_way_does_not_pass_a_bound_by(
    rig: Rig, burden: Burden, code: str, words: tuple[str, ...]
) -> None:
    """The carrier does not tell half partitions apart, so it must leave the others too."""
    _, client, _ = await rig.connected()
    ((record, _),) = rig.stage.it.halves()
    there = record.partition
    ids = (f"U{number}" for number in itertools.count())  # they decide on the half partition
    same = (i for i in ids if half_partition(maker_of(i).encode(), i, 2) == there)
    rig.intake.look([], {there: burden})
    rig.native.is_forgetful = True
    seen = rig.native.forgotten
    await rig.stage.until(lambda: rig.native.forgotten > seen, "what is allowed to be forgotten")
    rig.native.is_forgetful = False
    refused = await client.half(GROUP, TOPIC, b"y", unique=next(same))
    assert refused.code == codes.SYSTEM_BUSY
    remark = refused.remark or ""
    assert all(w in remark for w in (f"[OVERLOAD] {code}: ", *words, "5 are allowed"))
    rig.intake.look([], {1 - there: burden})
    for _ in range(2):  # the first one would have opened the way for the second
        assert (await client.half(GROUP, TOPIC, b"y", unique=next(same))).code == 0
    assert len(rig.stage.it.halves()) == 3
    assert not rig.native.under_way
    rig.intake.look([], {})
    assert (await client.half(GROUP, TOPIC, b"y", unique=next(same))).code == 0
    asked = asyncio.ensure_future(client.half(GROUP, TOPIC, b"z", unique=next(same)))
    await rig.until_under_way(1)
    rig.native.finish()
    assert (await within(asked)).code == 0


async def test_lines_of_the_carrier_reach_the_log(rig: Rig) -> None:
    await rig.open()
    rig.native.lines.append(Line(3, "FAIL", "nobody is there"))
    rig.native.wake()
    await rig.stage.until(lambda: rig.lines == [(3, "FAIL", "nobody is there")], "the line")


async def test_what_comes_through_tls_goes_the_native_way_too(rig: Rig, tmp_path: Path) -> None:
    pair = certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=str(pair[0]))
    trusting.check_hostname = False
    files = TlsFiles(door="rocketmq", certificate=pair[0], key=pair[1])
    door = await rig.open(tls=ServerTls(files, lambda: 0))
    client = await rig.stage.client(door, tls=trusting)
    assert (await client.half(GROUP, TOPIC, b"x", unique="U1")).code == 0
    asked = asyncio.ensure_future(client.half(GROUP, TOPIC, b"y" * 5_000, unique="U2"))
    await rig.until_under_way(1)
    rig.native.finish()
    assert (await within(asked)).code == 0


# -- frames in pieces ----------------------------------------------------------------------------


async def test_a_frame_may_come_in_pieces(rig: Rig) -> None:
    _, client, _ = await rig.connected()
    answer = answer_to(client, 700)
    for byte in half_bytes(700, "U1"):
        client.raw(bytes((byte,)))
        await client._writer.drain()
    await rig.until_under_way(1)
    rig.native.finish()
    assert (await within(answer)).code == 0


async def test_a_frame_that_has_begun_the_usual_way_ends_there(rig: Rig) -> None:
    door = await rig.open()
    client = await rig.stage.client(door)
    first, second = answer_to(client, 700), answer_to(client, 701)
    begun = half_bytes(701, "U2")
    client.raw(half_bytes(700, "U1") + begun[:50])
    assert (await within(first)).code == 0
    assert rig.native.connected == {}
    client.raw(begun[50:])
    assert (await within(second)).code == 0
    assert len(rig.stage.it.halves()) == 2
    assert list(rig.native.connected.values()) != []


async def test_unfinished_frames_held_by_the_carrier_are_bounded_too(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    _, client, _ = await rig.connected(limits={"held_bytes_max": 1_000})
    client.raw(b"\x00\x00\x10\x00" + bytes(2_000))
    await within(client.closed.wait())
    assert "too many unfinished frames" in caplog.text


async def test_with_a_carrier_the_loop_has_half_of_the_bytes_that_may_be_under_way(
    rig: Rig,
) -> None:
    """The carrier has the other half (composition/rocketmq.py), and gives back what is more."""
    door, client, _ = await rig.connected(limits={"in_flight_bytes_max": 10_000})
    held, service = asyncio.Event(), rig.stage.it.service
    prepare = service.prepare

    async def waits(**options: Any) -> Any:
        await held.wait()
        return await prepare(**options)

    service.prepare = waits
    other = "another group, that the carrier has not been allowed"
    begun = asyncio.ensure_future(client.half(other, TOPIC, bytes(5_000), unique="U1"))
    await rig.stage.until(lambda: door.snapshot().in_flight_bytes >= 5_000, "it to be under way")
    assert (await client.half(other, TOPIC, b"x", unique="U2")).code == codes.SYSTEM_BUSY
    held.set()
    assert (await within(begun)).code == 0


async def test_a_frame_that_the_carrier_waits_for_in_vain_ends_the_connection(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    _, client, _ = await rig.connected(limits={"receive_s": 0.3})
    client.raw(half_bytes(700, "U1")[:50])
    await within(client.closed.wait())
    assert "was not complete after 0.3 s" in caplog.text


async def test_bytes_that_are_no_frame_end_the_connection_and_not_what_is_under_way(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    door, client, _ = await rig.connected()
    client.raw(half_bytes(700, "U1") + b"\xff\xff\xff\xff")
    await within(client.closed.wait())
    assert "cannot be read" in caplog.text
    assert door.snapshot().in_flight_count == 1
    rig.native.finish()
    await rig.stage.until(lambda: door.snapshot().in_flight_count == 0, "the message")
    assert rig.native.connected == {}


# -- room ----------------------------------------------------------------------------------------


async def test_when_too_many_are_in_flight_the_rest_is_told_so(rig: Rig) -> None:
    _, client, _ = await rig.connected(limits={"in_flight_count_max": 2})
    asked = [
        asyncio.ensure_future(client.half(GROUP, TOPIC, b"y", unique=f"U{n}")) for n in range(1, 4)
    ]
    refused = await within(asked[2])
    assert refused.code == codes.SYSTEM_BUSY
    assert len(rig.native.under_way) == 2
    rig.native.finish()
    assert [(await within(each)).code for each in asked[:2]] == [0, 0]


async def test_a_connection_with_too_many_requests_is_read_again_once_half_are_answered(
    rig: Rig,
) -> None:
    door, client, _ = await rig.connected(limits={"pipelined_count_max": 4})
    asked = [
        asyncio.ensure_future(client.half(GROUP, TOPIC, b"y", unique=f"U{n}")) for n in range(1, 20)
    ]

    def is_done() -> bool:
        if rig.native.under_way:
            assert len(rig.native.under_way) <= 4
            rig.native.finish()
        return all(each.done() for each in asked)

    await rig.stage.until(is_done, "the answers")
    assert {each.result().code for each in asked} == {0}
    assert door.snapshot().in_flight_count == 0
    assert max(rig.native.rooms) == 4


async def test_while_kafka_is_away_nothing_is_taken(rig: Rig) -> None:
    door, client, sent = await rig.connected()
    rig.stage.unready.append("Kafka is away")
    await rig.stage.until(lambda: door._load.refusal is not None, "the door to notice")
    refused = await client.half(GROUP, TOPIC, b"y", unique="U1")
    assert refused.code != 0
    assert "Kafka is away" in (refused.remark or "")
    client.end(GROUP, sent, COMMIT)  # ends still pass, the usual way
    await rig.stage.until(lambda: len(rig.stage.it.decided()) == 1, "the decision")
    assert rig.native.rooms[-2:] == [0, 0]
    assert rig.native.under_way == []


# -- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [TIMED_OUT, QUEUE_FULL])
async def test_a_message_that_was_not_stored_is_answered_so(rig: Rig, number: int) -> None:
    door, client, _ = await rig.connected()
    asked = asyncio.ensure_future(client.half(GROUP, TOPIC, b"y", unique="U1"))
    await rig.until_under_way(1)
    rig.native.fail(number)
    answer = await within(asked)
    error = native_error(number, "log")
    assert (answer.code, answer.remark) == response_of(error)
    assert door.snapshot().in_flight_count == 0
    assert door.snapshot().requests["send", answer.code] == 1
    assert rig.stage.it.observer.of("prepare_refused") == [(error.code,)]


async def test_a_one_way_end_that_was_not_stored_is_counted_and_told_in_the_log(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    door, client, sent = await rig.connected()
    client.end(GROUP, sent, COMMIT)
    await rig.until_under_way(1)
    rig.native.fail(TIMED_OUT)
    await rig.stage.until(lambda: "1 one-way ends" in caplog.text, "the line")
    assert door.snapshot().failed_one_way_ends == {"outcome_unknown": 1}
    assert door.snapshot().in_flight_count == 0
    assert rig.stage.it.observer.of("end_refused") == [("outcome_unknown",)]


async def test_where_the_carrier_does_not_start_the_door_works_without(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.failure = RuntimeError("no such library")
    door = await rig.open()
    client = await rig.stage.client(door)
    sent = await client.half(GROUP, TOPIC, b"x", unique="U1")
    assert (await client.half(GROUP, TOPIC, b"x", unique="U2")).code == 0
    assert (await client.end_sync(GROUP, sent, COMMIT)).code == 0
    assert "no such library" in caplog.text
    client._writer.close()
    await within(door.stop(drain_s=DEADLINE_S))


# -- first decisions -----------------------------------------------------------------------------


async def test_the_first_decision_under_way_natively_is_known_to_the_decision_log(
    rig: Rig,
) -> None:
    await rig.open()
    decisions = rig.stage.it.decisions
    decisions.elsewhere.append(rig.lending.decisions)
    rig.native.decided = {
        (1, GROUP, "U1"): [Decided(1, is_commit=True, is_stored=None, op_offset=None)],
        (1, GROUP, "U2"): [Decided(2, is_commit=False, is_stored=True, op_offset=7)],
    }

    def known(transaction_id: str) -> tuple[Resolution, bool | None] | None:
        identity = ProducerGroup(GROUP), TransactionId(transaction_id)
        found = decisions.under_way(1, identity)
        return None if found is None else (found.resolution, found.is_stored)

    assert known("U1") == (Resolution.COMMIT, None)
    assert known("U2") == (Resolution.ROLLBACK, True)
    assert known("U3") is None
    await rig.stage.doors[0].stop(drain_s=0)
    async with asyncio.timeout(10):
        # What is under way is looked at again now and then; nobody can tell any more.
        while known("U1") != (Resolution.COMMIT, False):
            await asyncio.sleep(0)


async def test_who_contradicts_a_decision_that_was_stored_natively_is_told(rig: Rig) -> None:
    _, client, sent = await rig.connected()
    rig.stage.it.decisions.elsewhere.append(rig.lending.decisions)
    partition = sent.commit_log_offset >> 48
    stored = Decided(1, is_commit=True, is_stored=True, op_offset=7)
    rig.native.decided = {(partition, GROUP, "U0"): [stored]}
    rig.native.allowed.clear()  # so that the end goes the usual way
    answer = await client.end_sync(GROUP, sent, ROLLBACK)
    assert answer.code != 0
    assert "came first" in (answer.remark or "")


async def test_an_id_that_was_taken_natively_for_another_message_is_refused(rig: Rig) -> None:
    _, client, _ = await rig.connected()
    rig.stage.it.service.claim_elsewhere = rig.lending.claim
    rig.native.claimed[GROUP, "U7"] = 17
    rig.native.allowed.clear()  # so that it goes the usual way
    sent = await client.half(GROUP, TOPIC, b"x", unique="U7")
    assert sent.code == codes.MESSAGE_ILLEGAL
    assert "transaction_id_reused" in (sent.remark or "")


async def test_what_owners_have_read_as_rolled_back_is_told_also_from_before_the_start(
    rig: Rig,
) -> None:
    def decided(name: str, resolution: Resolution) -> DecisionRead:
        identity = ProducerGroup(GROUP), TransactionId(name)
        source = ResolutionSource.PRODUCER
        return DecisionRead(OpOffset(1), TimestampMs(0), identity, resolution, 1, source)

    def done(name: str, ending: int) -> DoneRead:
        identity = ProducerGroup(GROUP), TransactionId(name)
        return DoneRead(OpOffset(2), TimestampMs(0), identity, ending, (1,))

    rig.lending.heard(None)
    rig.lending.heard([decided("U1", Resolution.ROLLBACK), decided("U2", Resolution.COMMIT)])
    await rig.connected()
    assert rig.native.rolled_back_ids == [(GROUP, "U1")]
    rig.lending.heard([done("U3", 1), done("U4", ROLLED_BACK)])
    assert rig.native.rolled_back_ids == [(GROUP, "U1"), (GROUP, "U4")]


# -- the way out ---------------------------------------------------------------------------------


async def test_a_client_that_leaves_leaves_nothing_in_flight(rig: Rig) -> None:
    door, client, sent = await rig.connected()
    client.raw(half_bytes(700, "U1") + half_bytes(701, "U2"))
    client.end(GROUP, sent, COMMIT)
    await rig.until_under_way(3)
    (_, first), (_, second), (_, last) = rig.native.under_way
    assert (first.opaque, second.opaque, last.code) == (700, 701, codes.END_TRANSACTION)
    client._writer.close()
    await rig.stage.until(lambda: door.snapshot().connection_count == 0, "its leaving")
    assert door.snapshot().in_flight_count == 3
    number, _ = rig.native.under_way[0]
    rest = rig.native.under_way[1:]
    rig.native.under_way = [(number, first)]
    rig.native.fail(TIMED_OUT)
    await rig.stage.until(lambda: door.snapshot().in_flight_count == 2, "the failure")
    assert list(rig.native.connected) == [number]
    rig.native.under_way = rest
    rig.native.finish()
    await rig.stage.until(lambda: door.snapshot().in_flight_count == 0, "the others")
    assert rig.native.connected == {}


async def test_the_drain_waits_for_what_is_under_way_natively(rig: Rig) -> None:
    door, client, sent = await rig.connected()
    client.end(GROUP, sent, COMMIT)
    await rig.until_under_way(1)
    client._writer.close()
    await rig.stage.until(lambda: door.snapshot().connection_count == 0, "its leaving")
    stopping = asyncio.ensure_future(door.stop(drain_s=DEADLINE_S))
    done, _ = await asyncio.wait([stopping], timeout=0.1)
    assert not done
    assert rig.native.stops == []
    rig.native.finish()
    await within(stopping)
    assert door.snapshot().requests["end_transaction", 0] == 1
    assert door.snapshot().failed_one_way_ends == {}
    assert len(rig.native.stops) == 1


async def test_while_draining_nothing_more_is_taken_natively(rig: Rig) -> None:
    door, client, sent = await rig.connected()
    stopping = asyncio.ensure_future(door.stop(drain_s=20))
    await rig.stage.until(lambda: not rig.stage.desk.links, "the producers to be let go")
    client.end(GROUP, sent, COMMIT)
    refused = await client.half(GROUP, TOPIC, b"y", unique="U1")
    assert refused.code == codes.GO_AWAY
    await within(stopping)
    assert rig.native.rooms[-1] == 0
    assert len(rig.stage.it.decided()) == 1
    assert rig.native.connected == {}


async def test_a_drain_that_takes_too_long_has_taken_its_time_once(rig: Rig) -> None:
    door, client, sent = await rig.connected()
    client.end(GROUP, sent, COMMIT)
    await rig.until_under_way(1)
    await within(door.stop(drain_s=0.3))
    assert max(rig.native.stops) < 0.1
    assert door.snapshot().in_flight_count == 0
    assert door.snapshot().failed_one_way_ends == {"outcome_unknown": 1}
    assert rig.native.connected == {}


async def test_who_stops_it_twice_closes_its_pipe_once(rig: Rig) -> None:
    await rig.open()
    await asyncio.gather(rig.lending.stop(0), rig.lending.stop(0))
    await rig.lending.stop(0)
    assert rig.native.stops


# -- sockets that are lent -----------------------------------------------------------------------


@pytest.fixture
async def lender(stage: Any) -> Rig:
    made = Rig(stage)
    made.is_borrowing = True
    return made


async def lent(rig: Rig, **options: Any) -> tuple[Any, RemotingClient, Sent]:
    """As `connected`, and the socket is lent."""
    door, client, sent = await rig.connected(**options)
    await native_half(rig, client, "lent")
    assert rig.native.lent
    return door, client, sent


async def native_half(rig: Rig, client: RemotingClient, unique: str) -> None:
    asked = asyncio.create_task(client.half(GROUP, TOPIC, b"y", unique=unique))
    await rig.until_under_way(1)
    rig.native.finish()
    assert (await within(asked)).code == 0


async def test_a_socket_is_lent_once_something_goes_the_native_way(lender: Rig) -> None:
    _, client, _ = await lent(lender)
    assert (await client.heartbeat(GROUP)).code == 0
    await native_half(lender, client, "U1")
    assert lender.native.lent


async def test_what_a_slow_reader_left_unsent_comes_before_what_follows(lender: Rig) -> None:
    _, client, _ = await lent(lender)
    ((number, _),) = lender.native.lent.items()
    first = answer_to(client, 900)
    (asked,) = Frames().feed(encode(request(codes.HEART_BEAT, 900, {}, b"")))
    whole = reply(asked, codes.SUCCESS, None, {})
    lender.native.write(number, whole[:7])
    lender.native.unsent[number] = whole[7:]
    lender.native.let_go(number)
    assert (await client.heartbeat(GROUP)).code == 0
    assert (await within(first)).code == 0
    assert lender.native.lent == {}


async def test_a_socket_that_came_back_is_lent_again_after_a_while(lender: Rig) -> None:
    _, client, _ = await lent(lender)
    (number,) = lender.native.lent
    lender.native.let_go(number)
    await lender.stage.until(lambda: not lender.native.lent, "taken back")
    for count in itertools.count():
        await native_half(lender, client, f"V{count}")
        if lender.native.lent:
            break
    assert (await client.heartbeat(GROUP)).code == 0


async def test_who_leaves_while_his_socket_is_lent_is_gone(lender: Rig) -> None:
    door, client, _ = await lent(lender)
    assert door.snapshot().connection_count == 1
    client._writer.close()
    await lender.stage.until(lambda: door.snapshot().connection_count == 0, "gone")
    assert (lender.native.lent, lender.native.connected) == ({}, {})


async def test_what_came_before_a_write_to_its_client_failed_is_carried_out(lender: Rig) -> None:
    door, client, sent = await lent(lender)
    (number,) = lender.native.lent
    fields = client.end_fields(GROUP, sent, COMMIT)
    end = request(codes.END_TRANSACTION, 9, fields, flag=codes.ONE_WAY_FLAG, form=Form.BINARY)
    lender.native.unsent[number] = b"an answer"
    asyncio.get_running_loop().remove_reader(lender.native.lent[number])
    far = client._writer.get_extra_info("socket")
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client._writer.transport.abort()
    await within(client.closed.wait())
    lender.native.give_back(number, encode(end))
    for connection in door._load.connections:
        connection._take_back()
    await lender.stage.until(lender.stage.it.decided, "the end")
    await lender.stage.until(lambda: door.snapshot().connection_count == 0, "its leaving")
    assert lender.native.connected == {}


async def test_while_kafka_is_away_no_socket_stays_lent(lender: Rig) -> None:
    _, client, _ = await lent(lender)
    lender.stage.unready = ["Kafka is away"]
    await lender.stage.until(lambda: not lender.native.lent, "taken back")
    assert (await client.half(GROUP, TOPIC, b"y", unique="U1")).code != 0


async def test_a_connection_that_only_talks_natively_is_not_idle(lender: Rig) -> None:
    _, client, _ = await lent(lender, limits={"idle_s": 0.5})
    until_s = asyncio.get_running_loop().time() + 1.5
    count = 0
    while asyncio.get_running_loop().time() < until_s:
        await native_half(lender, client, f"V{count}")
        count += 1
        await asyncio.sleep(0.05)
    assert count > 5


async def test_nothing_goes_the_native_way_where_rights_are_asked_for(stage: Any) -> None:
    """Native threads look at no signature and at no right."""
    rig = Rig(stage)
    secrets = {"shop-key": "shop-secret"}
    door = await rig.open(access_secrets=secrets, access=access())
    client = await stage.client(door, access_key="shop-key", secret_key="shop-secret")
    for number in range(3):
        assert (await client.half("shop", TOPIC, b"x", unique=f"U{number}")).code == 0
    assert (rig.made, door.snapshot().native_count) == ([], 0)


async def test_native_threads_are_no_way_around_the_requests_of_a_second(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They count for nobody: only identities are counted, and nothing of theirs is lent."""
    monkeypatch.setattr(dispatch, "perf_counter", lambda: 5.0)
    rig = Rig(stage)
    known = Access(identities=everybody(), requests_s_max=3)
    door = await rig.open(access_secrets={"shop-key": "shop-secret"}, access=known)
    client = await stage.client(door, access_key="shop-key", secret_key="shop-secret")
    sent = [await client.half("shop", TOPIC, b"x", unique=f"U{number}") for number in range(5)]
    assert [each.code for each in sent] == [0, 0, 0, codes.SYSTEM_BUSY, codes.SYSTEM_BUSY]
    assert (rig.made, door.snapshot().native_count) == ([], 0)
