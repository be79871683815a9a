"""What the writer makes of each trouble that librdkafka can have, with a librdkafka of straw.

That it writes what it should is promised by the contract tests on a real broker.
"""

from __future__ import annotations

import threading
import traceback
from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation

from halfhitch import crash_points
from halfhitch.adapters.kafka import partition_writer
from halfhitch.adapters.kafka.guard import Suspicion
from halfhitch.adapters.kafka.partition_writer import KafkaPartitionWriter
from halfhitch.errors import KafkaUnavailable
from halfhitch.ports import TargetRecord, WriteOutcome
from harness.kafka import wait_until

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
        if args == (b"",):  # of one that was left in a call: its epoch is outdated
            raise FENCED
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

    def __len__(self) -> int:
        return 0


class StrawAdmin:
    """Knows topics by their leaders; `forbidden` are described and may not be written to."""

    def __init__(self, leaders: dict[str, list[int]]) -> None:
        self.leaders = leaders
        self.forbidden: set[str] = set()
        self.is_away = False
        self.asked: list[set[str]] = []

    def list_topics(self, topic: str, wait_s: float) -> Any:
        if self.is_away:
            raise problem(E._TRANSPORT)
        if topic not in self.leaders:
            return SimpleNamespace(topics={})
        partitions = {n: SimpleNamespace(leader=to) for n, to in enumerate(self.leaders[topic])}
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=partitions)})

    def describe_topics(self, topics: Any, **options: Any) -> dict[str, Future[Any]]:
        assert options["include_authorized_operations"] is True
        self.asked.append(set(topics.topic_names))
        return {topic: self._described(topic) for topic in topics.topic_names}

    def _described(self, topic: str) -> Future[Any]:
        future: Future[Any] = Future()
        operations = [AclOperation.DESCRIBE, AclOperation.READ]
        if topic not in self.forbidden:
            operations.append(AclOperation.WRITE)
        if self.is_away:
            future.set_exception(problem(E._TRANSPORT))
        elif topic in self.leaders or topic in ("half", "op"):
            future.set_result(SimpleNamespace(authorized_operations=operations))
        else:
            future.set_exception(problem(E.UNKNOWN_TOPIC_OR_PART))
        return future


class Bench:
    """A fenced writer over straw."""

    def __init__(self, **script: list[Exception | None]) -> None:
        self.script = script
        self.producers: list[StrawProducer] = []
        self.left: list[bool] = []
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
            on_left=self.left.append,
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
        return self.writer.write(targets, [(b"1,", [], None)], 5, 9)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_writer, "_RESUME_PAUSE_S", 0.0)


STEP = ["init", "begin", "produce", "produce", "offsets", "commit"]


def test_a_step_without_trouble_is_not_suspect() -> None:
    bench = Bench()
    result = bench.write()
    assert (result.outcome, result.is_suspect, result.reason) == (WriteOutcome.OK, False, "")
    assert bench.calls == STEP


class Hung:
    """Where sending the watermarks hangs, until it is told that it is fenced."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(partition_writer, "_ANSWER_S", 0.05)
        monkeypatch.setattr(partition_writer, "_GRACE_S", 0.05)
        self.is_told = threading.Event()
        bench.producer.send_offsets_to_transaction = self._hang  # type: ignore[method-assign]

    def _hang(self, *args: Any) -> None:
        assert self.is_told.wait(20.0)
        raise FENCED


def test_a_step_whose_watermarks_hang_is_a_fail_and_its_producer_is_not_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process was ended by its watchdog: librdkafka keeps no bound in that call."""
    bench = Bench()
    hung, first = Hung(bench, monkeypatch), bench.producer
    result = bench.write()
    assert result.outcome is WriteOutcome.FAIL
    assert "did not come back from sending the watermarks" in result.reason
    assert (result.is_ours, result.poisoned, result.away_topics) == (True, {}, frozenset())
    assert first.calls == STEP[:4], "neither ended, nor committed, nor let go while in the call"
    assert bench.left == [True]
    assert bench.write().reason == "the producer was not fenced"
    bench.writer.fence()
    assert bench.producer is not first
    assert bench.write().outcome is WriteOutcome.OK
    hung.is_told.set()
    wait_until(lambda: len(bench.left) > 1, 20.0, what="the producer is gone")
    assert (first.calls[-1], bench.left) == ("let go", [True, False])
    assert "commit" not in first.calls


def test_a_step_that_hangs_too_often_hangs_until_the_watchdog_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    hung = Hung(bench, monkeypatch)
    monkeypatch.setattr(partition_writer, "may_leave", lambda log: False)
    results: list[WriteResult] = []
    step = threading.Thread(target=lambda: results.append(bench.write()), daemon=True)
    step.start()
    step.join(0.5)
    assert step.is_alive()
    hung.is_told.set()
    step.join(20.0)
    assert [result.outcome for result in results] == [WriteOutcome.FAIL]


def test_watermarks_that_are_sent_again_have_one_bound_for_all_tries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each try had the whole time: a step could take twice as long, or longer."""
    bench = Bench()
    now_s, given_s = [0.0], []

    def send(offsets: Any, metadata: Any, wait_s: float) -> None:
        given_s.append(wait_s)
        now_s[0] += 4.0
        raise TIMED_OUT

    bench.producer.send_offsets_to_transaction = send  # type: ignore[method-assign]
    monkeypatch.setattr(
        partition_writer, "time", SimpleNamespace(monotonic=lambda: now_s[0], sleep=lambda _: None)
    )
    assert bench.write().outcome is WriteOutcome.FAIL
    assert given_s == [10.0, 6.0, 2.0]


NOTHING_SAID = SystemError("returned a result with an exception set")


def test_a_system_error_out_of_a_commit_is_an_unknown_outcome() -> None:
    """It was taken for a bug of ours. Of the commit nothing is known, and nothing is aborted."""
    bench = Bench(commit=[NOTHING_SAID])
    result = bench.write()
    assert result.outcome is WriteOutcome.UNKNOWN
    assert "what became of the commit" in result.reason
    assert bench.calls == [*STEP, "let go"]


@pytest.mark.parametrize("call", ["begin", "produce", "offsets"])
def test_a_system_error_before_the_commit_is_a_fail(call: str) -> None:
    bench = Bench(**{call: [NOTHING_SAID]})
    result = bench.write()
    assert result.outcome is WriteOutcome.FAIL
    assert "commit" not in bench.calls
    assert bench.calls[-2:] == ["abort", "let go"]


def test_a_system_error_out_of_an_abort_or_a_fence_is_trouble_and_no_bug() -> None:
    bench = Bench(offsets=[NOT_DELIVERED], abort=[NOTHING_SAID], init=[None, NOTHING_SAID])
    assert bench.write().outcome is WriteOutcome.FAIL
    with pytest.raises(KafkaUnavailable, match="cannot be taken over"):
        bench.writer.fence()
    assert bench.calls == ["init", "let go"]


@pytest.mark.parametrize("error", [FENCED, NOTHING_SAID], ids=["fatal", "system"])
def test_a_fatal_error_that_is_told_between_steps_makes_the_producer_anew(error: Exception) -> None:
    """Whatever serves callbacks raises it; out of `idle` it was taken for a bug of ours."""
    bench = Bench()

    def fails() -> None:
        raise error

    bench.producer.on_poll = fails
    assert bench.writer.idle()
    result = bench.write()
    assert result.outcome is WriteOutcome.FAIL
    assert "it has failed" in result.reason
    assert bench.calls == ["init", "let go"]


def test_a_fatal_error_that_is_told_behind_a_commit_does_not_make_it_unknown() -> None:
    bench = Bench()
    polls: list[int] = []

    def fails_behind_the_commit() -> None:
        polls.append(1)
        if "commit" in bench.calls:
            raise FENCED

    bench.producer.on_poll = fails_behind_the_commit
    result = bench.write()
    assert (result.outcome, result.is_suspect) == (WriteOutcome.OK, True)
    assert polls


def test_both_watermarks_name_each_other_and_the_write() -> None:
    bench = Bench()
    stamp = bench.write().stamp
    sent = [(p.topic, p.partition, p.offset, p.metadata) for p in bench.producer.sent_offsets]
    assert sent == [("half", 3, 5, f"1;5;9;{stamp}"), ("op", 3, 9, f"1;5;9;{stamp}")]


def test_no_two_writes_have_the_same_stamp() -> None:
    bench = Bench(commit=[None, NOT_DELIVERED, None])
    stamps = [bench.write().stamp]
    assert bench.write().stamp == "", "nothing was stored"
    failed = bench.producer.sent_offsets[0].metadata
    bench.writer.fence()
    stamps += [bench.write().stamp, Bench().write().stamp]
    assert all(stamps)
    assert len(set(stamps)) == 3
    assert not any(failed.endswith(f";{stamp}") for stamp in stamps)


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


BROKEN = "TxnCoordinator: Receive failed: Connection reset by peer (after 3ms in state UP)"


def bench_whose_producers_hear(*lines: str | None) -> Bench:
    """One line for each that is made, while it is made; None is silence, and so is what follows."""
    bench = Bench()
    bench.writer.close()
    bench.producers.clear()
    said = list(lines)
    made = bench._make

    def make() -> StrawProducer:
        producer = made()
        line = said.pop(0) if said else None
        if line is not None:
            producer.on_poll = lambda: producer.suspicion.hear("FAIL", line)
        return producer

    bench.writer._make_producer = make  # type: ignore[assignment]
    return bench


def test_a_producer_that_met_trouble_while_it_was_made_is_not_used() -> None:
    bench = bench_whose_producers_hear(BROKEN, BROKEN, None)
    bench.writer.fence()
    assert [producer.calls for producer in bench.producers] == [
        ["init", "let go"],
        ["init", "let go"],
        ["init"],
    ]
    assert not bench.writer.idle()
    assert bench.write().outcome is WriteOutcome.OK


def test_where_every_producer_meets_trouble_the_partition_is_not_taken_over() -> None:
    bench = bench_whose_producers_hear(*[BROKEN] * 99)
    with pytest.raises(KafkaUnavailable, match=r"break again and again .* look at the network"):
        bench.writer.fence()
    assert len(bench.producers) == 5
    assert {producer.calls[-1] for producer in bench.producers} == {"let go"}
    assert bench.write().outcome is WriteOutcome.FAIL


def test_producers_are_not_made_for_longer_than_a_call_may_take(monkeypatch: Any) -> None:
    monkeypatch.setattr(partition_writer, "_ANSWER_S", 0.0)
    bench = bench_whose_producers_hear(*[BROKEN] * 99)
    with pytest.raises(KafkaUnavailable):
        bench.writer.fence()
    assert len(bench.producers) == 1


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
    assert (result.poisoned, result.refusing, result.closed) == ({}, {}, {})


def test_a_target_that_is_gone_is_refused_and_not_away() -> None:
    bench = Bench(commit=[NOT_DELIVERED])
    bench.producer.undelivered = {"gone": E.UNKNOWN_TOPIC_OR_PART}
    result = bench.write("orders", "gone")
    assert (set(result.poisoned), result.away_topics) == ({1}, frozenset())


NO_RIGHT = problem(E.TOPIC_AUTHORIZATION_FAILED, txn_requires_abort=True)
#: What librdkafka says of every further call, and nothing else.
STATE = problem(E._STATE)


@pytest.mark.parametrize(
    "script",
    [{"commit": [NO_RIGHT]}, {"offsets": [NO_RIGHT]}, {"produce": [None, STATE]}],
    ids=["commit", "offsets", "produce"],
)
def test_a_topic_that_may_be_described_but_not_written_to_is_named(
    script: dict[str, list[Exception | None]],
) -> None:
    bench = Bench(**script)
    bench.admin.forbidden = {"points"}
    result = bench.write("orders", "points", "points")
    assert result.outcome is WriteOutcome.FAIL
    assert set(result.closed) == {"points"}
    assert set(result.poisoned) == {1, 2}
    assert "points: Kafka does not let Half Hitch write to it" in result.reason
    assert not result.is_ours


def test_a_write_that_was_refused_is_not_judged_by_what_can_be_described() -> None:
    bench = Bench(commit=[NOT_DELIVERED])
    bench.producer.undelivered = {"points": E.TOPIC_AUTHORIZATION_FAILED}
    bench.admin.forbidden = {"points"}
    assert set(bench.write("orders", "points").poisoned) == {1}
    bench = Bench(commit=[NOT_DELIVERED])
    bench.producer.undelivered = {"points": E.TOPIC_AUTHORIZATION_FAILED}
    result = bench.write("orders", "points")
    assert (result.poisoned, result.closed) == ({}, {}), "it was, and may be written to now"


@pytest.mark.parametrize("topic", ["op", "half"])
def test_what_is_not_let_write_to_our_own_topics_is_our_own_trouble(topic: str) -> None:
    bench = Bench(commit=[NO_RIGHT])
    bench.admin.forbidden = {topic}
    result = bench.write("orders", "half")
    assert (result.poisoned, set(result.closed), result.is_ours) == ({}, {topic}, True)


@pytest.mark.parametrize("topic", ["op", "half"])
def test_what_our_own_topics_refuse_is_our_own_trouble(topic: str) -> None:
    bench = Bench(commit=[NOT_DELIVERED])
    bench.producer.undelivered = {topic: E.MSG_SIZE_TOO_LARGE, "orders": E._PURGE_QUEUE}
    result = bench.write("orders", "half")
    assert (result.poisoned, set(result.refusing), result.is_ours) == ({}, {topic}, True)


def test_of_what_a_target_refuses_its_name_is_told() -> None:
    bench = Bench(commit=[NOT_DELIVERED])
    bench.producer.undelivered = {"points": E.MSG_SIZE_TOO_LARGE, "op": E._PURGE_QUEUE}
    result = bench.write("orders", "points")
    assert (result.poisoned, set(result.refusing), result.is_ours) == ({}, {"points"}, False)
    assert bench.admin.asked == [], "what is known is not asked for"


def test_a_record_that_the_producer_itself_refuses_is_known_by_its_place() -> None:
    too_large = problem(E.MSG_SIZE_TOO_LARGE)
    result = Bench(produce=[None, too_large]).write("orders", "points")
    assert (set(result.poisoned), result.refusing, result.is_ours) == ({1}, {}, False)
    result = Bench(produce=[None, too_large]).write("orders", "half")
    assert (result.poisoned, set(result.refusing), result.is_ours) == ({}, {"half"}, True)


@pytest.mark.parametrize(
    "error",
    [
        FENCED,
        problem(E.ILLEGAL_GENERATION, txn_requires_abort=True),
        problem(E.GROUP_AUTHORIZATION_FAILED, txn_requires_abort=True),
        problem(E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, fatal=True),
    ],
    ids=lambda error: error.args[0].name(),
)
def test_the_group_and_the_producer_are_our_own_trouble(error: KafkaException) -> None:
    bench = Bench(offsets=[error])
    result = bench.write("orders", "points")
    assert (result.is_ours, result.poisoned, result.closed) == (True, {}, {})
    assert bench.admin.asked == []


def test_a_partition_that_was_given_up_is_our_own_trouble() -> None:
    bench = Bench()

    def metadata() -> Any:
        raise problem(E._STATE)

    bench.writer._group_metadata = metadata
    assert bench.write().is_ours
    bench.writer._group_metadata = lambda: "generation 8"
    bench.writer.fence()
    bench.script["produce"] = [STATE]
    assert not bench.write().is_ours, "not any more"


def test_who_is_not_answered_about_rights_blames_nobody() -> None:
    bench = Bench(commit=[NO_RIGHT])
    bench.admin.forbidden, bench.admin.is_away = {"points"}, True
    result = bench.write("points")
    assert (result.poisoned, result.closed, result.is_ours) == ({}, {}, False)


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


def test_whoever_keeps_the_error_of_a_failed_takeover_keeps_no_producer() -> None:
    """Its threads went on, and it gathered statistics of 40 KiB a second that nobody fetched."""
    bench = Bench()
    bench.script["init"] = [TIMED_OUT]
    with pytest.raises(KafkaUnavailable) as kept:
        bench.writer.fence()
    (_, made) = bench.producers
    for error in (kept.value, kept.value.__cause__):
        for frame, _line in traceback.walk_tb(error.__traceback__):
            if "halfhitch" in frame.f_globals["__name__"]:
                assert not any(value is made for value in frame.f_locals.values()), frame
