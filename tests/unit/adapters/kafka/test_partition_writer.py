"""What the writer makes of each trouble that librdkafka can have, with a librdkafka of straw.

That it writes what it should is promised by the contract tests on a real broker.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from halfhitch import crash_points
from halfhitch.adapters.kafka import partition_writer
from halfhitch.adapters.kafka.guard import Suspicion
from halfhitch.adapters.kafka.partition_writer import KafkaPartitionWriter
from halfhitch.errors import KafkaUnavailable
from halfhitch.ports import TargetRecord, WriteOutcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from halfhitch.ports import WriteResult

E: Any = KafkaError


def problem(code: int, **flags: bool) -> KafkaException:
    return KafkaException(E(code, "why", **flags))


TIMED_OUT = problem(E._TIMED_OUT, retriable=True)
FENCED = problem(E._FENCED, fatal=True)
CONFLICT = problem(E._CONFLICT, retriable=True)
NOT_DELIVERED = problem(E._MSG_TIMED_OUT, txn_requires_abort=True)


class StrawProducer:
    """Notes every call; `script` says what the next calls of a name raise (None: nothing)."""

    def __init__(self, script: dict[str, list[Exception | None]]) -> None:
        self.suspicion = Suspicion()
        self.calls: list[str] = []
        self.is_connected = False
        self.sent_offsets: list[Any] = []
        #: topic -> the error that its records are reported with when the commit flushes
        self.undelivered: dict[str, int] = {}
        self.on_poll: Callable[[], None] = lambda: None
        self._script = script
        self._reports: list[tuple[str, Any]] = []

    def _call(self, name: str) -> None:
        self.calls.append(name)
        raised = self._script.get(name) or [None]
        if (error := raised.pop(0)) is not None:
            raise error

    def list_topics(self, topic: str, wait_s: float) -> None:
        self.is_connected = True

    def init_transactions(self, wait_s: float) -> None:
        assert self.is_connected, "or librdkafka pauses for half a second"
        self._call("init")

    def begin_transaction(self) -> None:
        self._call("begin")

    def produce(self, topic: str, *args: Any, **kwargs: Any) -> None:
        self._call("produce")
        self._reports.append((topic, args[3]))

    def send_offsets_to_transaction(self, offsets: Any, metadata: Any, wait_s: float) -> None:
        self._call("offsets")
        self.sent_offsets = offsets

    def commit_transaction(self, wait_s: float) -> None:
        for topic, report in self._reports:
            if topic in self.undelivered:
                report(E(self.undelivered[topic]), SimpleNamespace(topic=lambda name=topic: name))
        self._reports.clear()
        self._call("commit")

    def abort_transaction(self, wait_s: float) -> None:
        self._call("abort")

    def poll(self, wait_s: float) -> None:
        self.on_poll()

    def purge(self) -> None:
        self.calls.append("let go")


class StrawAdmin:
    """Knows topics by their leaders; a topic with an error is refused."""

    def __init__(self, leaders: dict[str, list[int]]) -> None:
        self.leaders = leaders
        self.is_away = False

    def list_topics(self, topic: str, wait_s: float) -> Any:
        if self.is_away:
            raise problem(E._TRANSPORT)
        if topic not in self.leaders:
            return SimpleNamespace(topics={})
        partitions = {n: SimpleNamespace(leader=to) for n, to in enumerate(self.leaders[topic])}
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=partitions)})


class Bench:
    """A fenced writer over straw."""

    def __init__(self, **script: list[Exception | None]) -> None:
        self.script = script
        self.producers: list[StrawProducer] = []
        self.admin = StrawAdmin({"orders": [1, 2], "points": [1]})
        self.writer = KafkaPartitionWriter(
            self._make,  # type: ignore[arg-type]
            make_resumer=self._make,  # type: ignore[arg-type]
            admin=self.admin,  # type: ignore[arg-type]
            group_metadata=lambda: "generation 7",
            half_topic="half",
            op_topic="op",
            partition=3,
            transaction_timeout_ms=15_000,
        )
        self.writer.fence()

    def _make(self) -> StrawProducer:
        self.producers.append(StrawProducer(self.script))
        return self.producers[-1]

    @property
    def producer(self) -> StrawProducer:
        return self.producers[-1]

    @property
    def calls(self) -> list[str]:
        return self.producer.calls

    def write(self, *topics: str) -> WriteResult:
        targets = [TargetRecord(topic, 0, None, b"v", []) for topic in topics or ("orders",)]
        return self.writer.write(targets, [(b"1,", [])], 5, 9)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_writer, "_RESUME_PAUSE_S", 0.0)


STEP = ["init", "begin", "produce", "produce", "offsets", "commit"]


def test_a_step_without_trouble_is_not_suspect() -> None:
    bench = Bench()
    result = bench.write()
    assert (result.outcome, result.is_suspect, result.reason) == (WriteOutcome.OK, False, "")
    assert bench.calls == STEP


def test_both_watermarks_name_each_other() -> None:
    bench = Bench()
    bench.write()
    sent = [(p.topic, p.partition, p.offset, p.metadata) for p in bench.producer.sent_offsets]
    assert sent == [("half", 3, 5, "1;5;9"), ("op", 3, 9, "1;5;9")]


# -- before the commit ---------------------------------------------------------------------------


def test_offsets_that_timed_out_are_sent_again_and_the_producer_is_suspect() -> None:
    bench = Bench(offsets=[TIMED_OUT, TIMED_OUT, None])
    result = bench.write()
    assert (result.outcome, result.is_suspect) == (WriteOutcome.OK, True)
    assert "the watermarks were sent again" in result.reason
    assert bench.calls.count("offsets") == 3


def test_offsets_that_time_out_for_too_long_abort_the_step(monkeypatch: Any) -> None:
    monkeypatch.setattr(partition_writer, "_ANSWER_S", 0.0)
    bench = Bench(offsets=[TIMED_OUT] * 99)
    assert bench.write().outcome is WriteOutcome.FAIL
    assert bench.calls[-2:] == ["abort", "let go"]


@pytest.mark.parametrize("at", ["begin", "produce", "offsets"])
@pytest.mark.parametrize(
    "error", [NOT_DELIVERED, CONFLICT, problem(E.ILLEGAL_GENERATION, txn_requires_abort=True)]
)
def test_any_trouble_before_the_commit_is_a_surely_failed_step(
    at: str, error: KafkaException
) -> None:
    bench = Bench(**{at: [error]})
    assert bench.write().outcome is WriteOutcome.FAIL
    assert "commit" not in bench.calls
    assert bench.calls[-2:] == ["abort", "let go"]
    assert bench.write().outcome is WriteOutcome.FAIL, "not used again"
    bench.writer.fence()
    assert bench.write().outcome is WriteOutcome.OK


def test_a_fatal_producer_is_dropped_without_asking_it_to_abort() -> None:
    bench = Bench(offsets=[FENCED])
    assert bench.write().outcome is WriteOutcome.FAIL
    assert bench.calls[-1] == "let go"
    assert "abort" not in bench.calls


def test_a_full_queue_fails_the_step() -> None:
    bench = Bench(produce=[BufferError("queue full")])
    result = bench.write()
    assert (result.outcome, result.reason) == (WriteOutcome.FAIL, "queue full")


# -- the commit ----------------------------------------------------------------------------------


def test_a_commit_that_timed_out_is_asked_for_again_and_nothing_else() -> None:
    bench = Bench(commit=[TIMED_OUT, TIMED_OUT, None])
    result = bench.write()
    assert (result.outcome, result.is_suspect) == (WriteOutcome.OK, True)
    assert bench.calls == [*STEP, "commit", "commit"]


def test_a_commit_that_never_answers_is_unknown_and_never_aborted(monkeypatch: Any) -> None:
    bench = Bench(commit=[TIMED_OUT] * 99)
    monkeypatch.setattr(bench.writer, "_timeout_s", 0.0)
    assert bench.write().outcome is WriteOutcome.UNKNOWN
    assert bench.calls == [*STEP, "let go"]


@pytest.mark.parametrize("error", [FENCED, CONFLICT, problem(E._INCONSISTENT, fatal=True)])
def test_a_commit_that_fails_for_good_is_unknown(error: KafkaException) -> None:
    bench = Bench(commit=[error])
    assert bench.write().outcome is WriteOutcome.UNKNOWN
    assert bench.calls == [*STEP, "let go"]


def test_a_commit_whose_records_were_not_delivered_is_aborted() -> None:
    bench = Bench(commit=[NOT_DELIVERED])
    assert bench.write().outcome is WriteOutcome.FAIL
    assert bench.calls == [*STEP, "abort", "let go"]


@pytest.mark.parametrize("error", [CONFLICT, TIMED_OUT, FENCED])
def test_an_abort_behind_a_commit_is_tried_once_and_then_unknown(error: KafkaException) -> None:
    bench = Bench(commit=[NOT_DELIVERED], abort=[error] * 99)
    assert bench.write().outcome is WriteOutcome.UNKNOWN
    assert bench.calls == [*STEP, "abort", "let go"]


# -- suspicion -----------------------------------------------------------------------------------


def test_what_is_heard_right_after_the_commit_makes_the_producer_suspect() -> None:
    bench = Bench()

    def hear() -> None:
        if "commit" in bench.calls:
            bench.producer.suspicion.hear("REQTMOUT", "Timed out EndTxnRequest in flight")

    bench.producer.on_poll = hear
    result = bench.write()
    assert (result.outcome, result.is_suspect) == (WriteOutcome.OK, True)
    assert "EndTxnRequest" in result.reason


def test_a_producer_that_became_suspect_since_is_not_used(caplog: Any) -> None:
    caplog.set_level("INFO")
    bench = Bench()
    assert not bench.writer.idle()
    bench.producer.on_poll = lambda: bench.producer.suspicion.note("a connection broke")
    assert bench.writer.idle()
    result = bench.write()
    assert (result.outcome, result.reason) == (
        WriteOutcome.FAIL,
        "the producer: a connection broke",
    )
    assert bench.calls == ["init", "let go"]
    assert not bench.writer.idle(), "there is none"
    assert {record.action for record in caplog.records} == {"producer_suspect"}
    bench.writer.fence()
    assert bench.write().outcome is WriteOutcome.OK


def test_what_is_heard_while_the_fence_is_made_says_nothing() -> None:
    bench = Bench()
    bench.script["init"] = [None]
    made = bench._make

    def make() -> StrawProducer:
        producer = made()
        producer.on_poll = lambda: (
            None if "begin" in producer.calls else producer.suspicion.hear("REQTMOUT", "init")
        )
        return producer

    bench.writer._make_producer = make  # type: ignore[assignment]
    bench.writer.fence()
    bench.producer.on_poll = lambda: None
    assert not bench.writer.idle()


def test_a_fence_that_fails_leaves_no_producer_behind() -> None:
    bench = Bench()
    bench.script["init"] = [TIMED_OUT]
    with pytest.raises(KafkaUnavailable, match="half-3 cannot be taken over"):
        bench.writer.fence()
    assert [producer.calls[-1] for producer in bench.producers] == ["let go", "let go"]
    assert bench.write().outcome is WriteOutcome.FAIL


# -- targets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [E._MSG_TIMED_OUT, E.NOT_ENOUGH_REPLICAS, E.LEADER_NOT_AVAILABLE])
def test_targets_that_could_not_be_reached_in_time_are_away_and_not_refused(code: int) -> None:
    bench = Bench(commit=[NOT_DELIVERED])
    bench.producer.undelivered = {"points": code, "orders": E._PURGE_QUEUE}
    result = bench.write("orders", "points")
    assert result.away_topics == {"points"}
    assert (result.poisoned, result.is_poisoned) == ({}, False)


def test_a_target_that_is_gone_is_refused_and_not_away() -> None:
    bench = Bench(commit=[NOT_DELIVERED])
    bench.producer.undelivered = {"gone": E.UNKNOWN_TOPIC_OR_PART}
    result = bench.write("orders", "gone")
    assert (set(result.poisoned), result.away_topics) == ({1}, frozenset())


def test_when_our_own_log_is_away_too_no_target_is_blamed() -> None:
    bench = Bench(commit=[NOT_DELIVERED])
    bench.producer.undelivered = {"points": E._MSG_TIMED_OUT, "op": E._MSG_TIMED_OUT}
    assert bench.write("points").away_topics == frozenset()


def test_what_was_away_in_one_step_is_not_away_in_the_next() -> None:
    bench = Bench(commit=[NOT_DELIVERED, problem(E._MSG_TIMED_OUT, txn_requires_abort=True)])
    bench.producer.undelivered = {"points": E._MSG_TIMED_OUT}
    assert bench.write("points").away_topics == {"points"}
    bench.writer.fence()
    assert bench.write("orders").away_topics == frozenset()


def test_leaderless_are_the_topics_of_which_a_partition_surely_has_no_leader() -> None:
    bench = Bench()
    bench.admin.leaders = {"orders": [1, -1], "points": [1]}
    assert bench.writer.leaderless(["orders", "points", "unheard of"]) == {"orders"}
    bench.admin.is_away = True
    assert bench.writer.leaderless(["orders"]) == frozenset()


# -- crash points --------------------------------------------------------------------------------


def test_every_crash_point_of_the_writer_is_reached_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(crash_points, "_hook", seen.append)
    bench = Bench()
    bench.write()
    wanted = "before_fence after_fence before_begin after_begin after_produce after_send_offsets"
    assert seen == [*wanted.split(), "after_commit"]
    assert set(seen) <= set(crash_points.NAMES)
