"""A late EndTxn (or TxnOffsetCommit) of a Kafka transaction must not touch the next one.

On a real broker, through a proxy that keeps one frame back, resets the connection (or lets the
client's patience end), and lets the frame go in the middle of the NEXT Kafka transaction. Each test
runs twice: with the guard nothing happens; without it the harm is done and seen, so that the first
result means something.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from chaos.kit.proxy import ApiKey, Frame, HeldFrames, KafkaProxy, one_proxied
from halfhitch import crash_points
from halfhitch.adapters.kafka import clients, partition_writer
from halfhitch.adapters.kafka.guard import Suspicion
from halfhitch.adapters.kafka.partition_writer import KafkaPartitionWriter
from halfhitch.embedded import EmbeddedKafka
from halfhitch.ports import TargetRecord, WriteOutcome
from harness.kafka import wait_until
from harness.worlds import KafkaWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from halfhitch.ports import WriteResult

pytestmark = pytest.mark.kafka

DEADLINE_S = 15.0
#: What a broker says to a producer whose epoch is over.
EPOCH_IS_OVER = {KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}
GUARDS = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])


class ProcessDied(Exception):
    """Thrown out of the writer's work where the process is to die."""


class Proxied(KafkaWorld):
    """A world whose owner speaks to Kafka through the proxy; everybody else does not."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self._through = kafka.proxy_bootstrap
        super().__init__(kafka.bootstrap)
        self.put(self.half_topic, [b"%d" % n for n in range(9)])

    def _transactional_producer(self, partition: int) -> clients.OwnerProducer:
        return clients.owner_producer(
            clients.base(self._through, "held", {}),
            transactional_id=f"{self._names.owner_group}-{partition}",
            transaction_timeout_ms=15_000,
        )

    def values(self) -> list[bytes | None]:
        return [record.value for record in self.committed(self.targets[0])]

    def watermark(self) -> int | None:
        return self.reader().committed_positions()[0]


@pytest.fixture(scope="module")
def proxied_kafka() -> Iterator[tuple[EmbeddedKafka, KafkaProxy]]:
    with one_proxied() as found:
        yield found


@pytest.fixture
def proxy(proxied_kafka: tuple[EmbeddedKafka, KafkaProxy]) -> KafkaProxy:
    return proxied_kafka[1]


@pytest.fixture
def world(proxied_kafka: tuple[EmbeddedKafka, KafkaProxy]) -> Iterator[Proxied]:
    made = Proxied(proxied_kafka[0])
    yield made
    made.close()


@pytest.fixture
def at_point(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], None]], None]:
    """Do something when the writer comes to that point for the next time, once."""

    def arrange(name: str, act: Callable[[], None]) -> None:
        acts = [act]

        def reached(point: str) -> None:
            if point == name and acts:
                acts.pop()()

        monkeypatch.setattr(crash_points, "_hook", reached)

    return arrange


def unguard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is suspect, and a producer is used on after an abort."""

    def trust(self: Suspicion, reason: str) -> None:
        pass

    def abort_only(self: KafkaPartitionWriter, producer: Any) -> bool:
        producer.abort_transaction(DEADLINE_S)
        return True

    monkeypatch.setattr(Suspicion, "note", trust)
    monkeypatch.setattr(KafkaPartitionWriter, "_abort", abort_only)


def target(world: Proxied, value: bytes) -> TargetRecord:
    return TargetRecord(world.targets[0], 0, None, value, [])


def store_what_was_produced(writer: KafkaPartitionWriter) -> None:
    assert writer._producer is not None
    assert writer._producer._alive().flush(DEADLINE_S) == 0


def let_go(held: HeldFrames) -> int:
    """Release the frame; the broker's error code for it."""
    held.release()
    answer = held.wait_answered(DEADLINE_S)
    return error_of(answer)


def error_of(answer: Frame) -> int:
    """Of an EndTxn answer (v1): correlation id, throttle time, error code."""
    return int.from_bytes(answer.payload[8:10], signed=True)


def go_on_as_an_owner_does(writer: KafkaPartitionWriter, result: WriteResult) -> None:
    if result.is_suspect or writer._producer is None:
        writer.fence()


def fail() -> None:
    raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "something is wrong with this step"))


@GUARDS
@pytest.mark.parametrize("how", ["reset", "client gives up"])
def test_a_late_commit_does_not_commit_the_next_kafka_transaction(
    world: Proxied,
    proxy: KafkaProxy,
    at_point: Callable[[str, Callable[[], None]], None],
    monkeypatch: pytest.MonkeyPatch,
    guarded: bool,
    how: str,
) -> None:
    if not guarded:
        unguard(monkeypatch)
    writer: Any = world.writer()
    writer.fence()
    held = proxy.hold(ApiKey.END_TXN, reset_client=how == "reset")
    result = first_step(world, writer, held)
    assert result.is_suspect is guarded
    is_harmless(world, writer, held, at_point, expected=guarded)


def first_step(world: Proxied, writer: Any, held: HeldFrames) -> WriteResult:
    """Its first EndTxn is caught, and the repeated one answered."""
    result: WriteResult = writer.write([target(world, b"first")], [(b"0,", [], None)], 1, 0)
    print(f"is_suspect={result.is_suspect} {result.reason!r}")
    assert result.outcome is WriteOutcome.OK
    assert len(held.frames) == 1, "the first EndTxn was caught, the repeated one was answered"
    go_on_as_an_owner_does(writer, result)
    return result


def is_harmless(
    world: Proxied,
    writer: Any,
    held: HeldFrames,
    at_point: Callable[[str, Callable[[], None]], None],
    *,
    expected: bool,
) -> None:
    """The caught EndTxn is let go in the middle of the next step, and the process dies there."""
    said: list[int] = []

    def release_and_die() -> None:
        store_what_was_produced(writer)
        said.append(let_go(held))
        raise ProcessDied

    at_point("after_produce", release_and_die)
    with pytest.raises(ProcessDied):
        writer.write([target(world, b"never committed")], [(b"1,", [], None)], 2, 0)
    world.writer().fence()  # a successor, whose fence aborts what is open
    visible, watermark = world.values(), world.watermark()
    print(f"the broker said {said[0]} to the late EndTxn; visible {visible}, watermark {watermark}")
    assert watermark == 1, "the successor does the second step again"
    if expected:
        assert said[0] in EPOCH_IS_OVER
        assert visible == [b"first"]
    else:
        assert said[0] == KafkaError.NO_ERROR
        assert visible == [b"first", b"never committed"], "and forwarded again: doubled"


def forget_what_was_heard_while_it_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = partition_writer.begin_producing

    def begin_and_forget(producer: clients.OwnerProducer, topic: str, wait_s: float) -> None:
        begin(producer, topic, wait_s)
        producer.poll(0)
        producer.suspicion.reason = None

    monkeypatch.setattr(partition_writer, "begin_producing", begin_and_forget)


def hear_no_debug_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    log = clients._Listening.log

    def log_others(self: Any, level: int, *what: str) -> None:
        if level > logging.DEBUG:
            log(self, level, *what)

    monkeypatch.setattr(clients._Listening, "log", log_others)


@pytest.mark.parametrize("resets", [0, 1, 2, 3])
@pytest.mark.parametrize("without", ["nothing", "silence", "debug lines", "both"])
def test_a_late_commit_is_harmless_however_often_the_link_broke_while_the_producer_was_made(
    world: Proxied,
    proxy: KafkaProxy,
    at_point: Callable[[str, Callable[[], None]], None],
    monkeypatch: pytest.MonkeyPatch,
    without: str,
    resets: int,
) -> None:
    """librdkafka logs the same line twice, and then not for half a minute.

    Either of two is enough: that a producer is made in silence, or that its debug lines are heard.
    """
    if without in ("silence", "both"):
        forget_what_was_heard_while_it_was_made(monkeypatch)
    if without in ("debug lines", "both"):
        hear_no_debug_lines(monkeypatch)
    made: list[clients.OwnerProducer] = []
    make = world._transactional_producer

    def note(partition: int) -> clients.OwnerProducer:
        made.append(make(partition))
        return made[-1]

    monkeypatch.setattr(world, "_transactional_producer", note)
    writer: Any = world.writer()
    broken = proxy.hold(ApiKey.INIT_PRODUCER_ID, count=resets, reset_client=True)
    writer.fence()
    assert len(broken.frames) == resets
    broken.drop()
    print(f"{resets} resets, without {without}: {len(made)} producers made")
    if without in ("nothing", "debug lines"):
        assert len(made) == 1 + (resets > 0), "the last one in silence"
    made.clear()
    held = proxy.hold(ApiKey.END_TXN, reset_client=True)
    result = first_step(world, writer, held)
    is_deaf = without == "both" and resets >= 2
    assert result.is_suspect is not is_deaf
    is_harmless(world, writer, held, at_point, expected=not is_deaf)


@GUARDS
def test_a_late_abort_does_not_abort_the_next_kafka_transaction(
    world: Proxied,
    proxy: KafkaProxy,
    at_point: Callable[[str, Callable[[], None]], None],
    monkeypatch: pytest.MonkeyPatch,
    guarded: bool,
) -> None:
    if not guarded:
        unguard(monkeypatch)
    writer: Any = world.writer()
    writer.fence()
    held = proxy.hold(ApiKey.END_TXN, reset_client=True)

    def store_and_fail() -> None:
        store_what_was_produced(writer)
        fail()

    at_point("after_produce", store_and_fail)
    result = writer.write([target(world, b"aborted")], [], 1, 0)
    assert result.outcome is WriteOutcome.FAIL
    assert len(held.frames) == 1, "the first EndTxn was caught, the repeated one was answered"
    go_on_as_an_owner_does(writer, result)

    said: list[int] = []

    def release() -> None:
        store_what_was_produced(writer)
        said.append(let_go(held))

    at_point("after_produce", release)
    result = writer.write([target(world, b"committed")], [(b"0,", [], None)], 1, 0)
    visible, watermark = world.values(), world.watermark()
    print(f"the broker said {said[0]} to the late EndTxn; visible {visible}, watermark {watermark}")
    assert result.outcome is WriteOutcome.OK
    assert watermark == 1, "the step is done as far as the logs say"
    if guarded:
        assert said[0] in EPOCH_IS_OVER
        assert visible == [b"committed"]
    else:
        assert said[0] == KafkaError.NO_ERROR
        assert visible == [], "and the watermark has moved past it: lost"


@GUARDS
def test_late_watermarks_of_an_aborted_kafka_transaction_do_not_join_the_next_one(
    world: Proxied,
    proxy: KafkaProxy,
    at_point: Callable[[str, Callable[[], None]], None],
    monkeypatch: pytest.MonkeyPatch,
    guarded: bool,
) -> None:
    if not guarded:
        unguard(monkeypatch)
    writer: Any = world.writer()
    writer.fence()
    held = proxy.hold(ApiKey.TXN_OFFSET_COMMIT, reset_client=True)
    at_point("after_send_offsets", fail)
    result = writer.write([target(world, b"aborted")], [], 7, 0)
    assert result.outcome is WriteOutcome.FAIL
    assert len(held.frames) == 1, "the first request was caught, the repeated one was answered"
    go_on_as_an_owner_does(writer, result)

    def release() -> None:
        held.release()
        held.wait_answered(DEADLINE_S)

    at_point("after_send_offsets", release)
    result = writer.write([target(world, b"committed")], [(b"0,", [], None)], 1, 0)
    visible, watermark = world.values(), world.watermark()
    print(f"visible {visible}, watermark {watermark}")
    assert result.outcome is WriteOutcome.OK
    assert visible == [b"committed"]
    if guarded:
        assert watermark == 1
    else:
        assert watermark == 7, "past halves that were never looked at: lost"


def test_without_log_lines_the_statistics_find_a_repeated_end(
    world: Proxied, proxy: KafkaProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second line: the commit returns in milliseconds, and the count of requests betrays it."""
    monkeypatch.setattr(Suspicion, "hear", lambda *_: None)
    writer: Any = world.writer()
    writer.fence()
    held = proxy.hold(ApiKey.END_TXN, reset_client=True)
    result = writer.write([target(world, b"first")], [(b"0,", [], None)], 1, 0)
    assert result.outcome is WriteOutcome.OK
    assert len(held.frames) == 1
    wait_until(writer.idle, DEADLINE_S, what="suspicion")
    print(writer._producer.suspicion.reason)
    result = writer.write([target(world, b"second")], [(b"1,", [], None)], 2, 0)
    assert result.outcome is WriteOutcome.FAIL, "a suspect producer is not used"
    writer.fence()
    assert let_go(held) in EPOCH_IS_OVER


def test_a_connection_that_breaks_while_nothing_is_written_is_heard(
    world: Proxied, proxy: KafkaProxy
) -> None:
    writer: Any = world.writer()
    writer.fence()
    assert writer.write([target(world, b"first")], [], 1, 0).outcome is WriteOutcome.OK
    assert not writer.idle()
    assert proxy.cut() > 0
    wait_until(writer.idle, DEADLINE_S, what="suspicion")
    writer.fence()
    assert not writer.idle()
    assert writer.write([target(world, b"second")], [], 2, 0).outcome is WriteOutcome.OK
    assert world.values() == [b"first", b"second"]


def test_a_kafka_that_stops_answering_holds_the_writer_no_longer_than_its_calls_are_bound(
    world: Proxied, proxy: KafkaProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing a producer aborts what is open, for as long as that takes; so none is ever closed."""
    monkeypatch.setattr(partition_writer, "_ANSWER_S", 1.0)
    writer: Any = world.writer()
    writer.fence()
    assert writer.write([target(world, b"first")], [], 1, 0).outcome is WriteOutcome.OK
    results: list[WriteResult] = []
    worker = threading.Thread(
        target=lambda: results.append(writer.write([target(world, b"second")], [], 2, 0))
    )
    proxy.stall()
    try:
        worker.start()
        worker.join(DEADLINE_S)
        assert not worker.is_alive(), "socket timeout and one abort: some five seconds"
    finally:
        proxy.heal()
        worker.join(DEADLINE_S)
    print(results)
    assert [result.outcome for result in results] == [WriteOutcome.FAIL]
    monkeypatch.undo()
    writer.fence()
    assert writer.write([target(world, b"second")], [], 2, 0).outcome is WriteOutcome.OK
    assert world.values() == [b"first", b"second"]
