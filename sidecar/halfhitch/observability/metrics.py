"""The Observer that feeds the metrics of table.py.

Invariants: no metric exists outside the table; base units, `_total` on counters; label values come
from closed sets, so that no caller can grow the output (an unknown value becomes "other"); of
topics the first TOPICS_NAMED_MAX have a line of their own, of producer groups see owned.py. What
stands in a closed set has its series from the start, at 0: else its first count would be no
increase to whoever watches. Those of half partitions come as soon as it is known how many there
are, or which are owned here. The names keep RocketMQ's stems where the meaning is the same.

It measures nothing itself: it is told. All its methods may be called on any thread, but what
tells of prepares and ends: that belongs to the event loop's (see hot.py).
"""

import itertools
import platform
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Generic, TypeVar

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

from halfhitch import __version__
from halfhitch.access import Numbers
from halfhitch.core.model import ConflictKind, Resolution, ResolutionSource
from halfhitch.errors import HalfHitchError
from halfhitch.observability.access import AccessCollector
from halfhitch.observability.hot import Buckets, Count, HotCounter, HotHistogram
from halfhitch.observability.owned import OTHER, OwnedCollector
from halfhitch.observability.rocketmq import Numbers as RocketmqNumbers
from halfhitch.observability.rocketmq import RocketmqCollector
from halfhitch.observability.table import METRICS
from halfhitch.observer import Latency
from halfhitch.service.api import MembershipState, PartitionState, Reach
from halfhitch.service.checking.api import CheckOutcome
from halfhitch.wire.trace_parent import sampled_request

# One `_created` line beside each counter would double the output and tell nothing.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

#: Names of the data door's routes; `unmatched` is what it calls a request that has none.
_ROUTES = (
    *("prepare", "half", "add", "commit", "rollback", "unknown", "view", "checks"),
    *("openapi", "unmatched"),
)
_STATUSES = (
    *("200", "201", "204", "400", "401", "403", "404", "405", "408", "409"),
    *("410", "413", "415", "417", "429", "431", "500", "503", "505"),
)
#: Of those, what each route can answer that somebody should see.
_FIRST_STATUSES = ("500", "503")
_DOORS = ("http", "rocketmq")
_REFUSED = ("full", "peer", "group", "identity")
_OUTCOMES = ("ok", "fail", "unknown")
_LOGS = ("half", "op")
_GIVE_UP_POLICIES = ("park", "rollback", "commit")
_GIVE_UP_REASONS = ("too_old", "checks_exhausted")
_REBUILD_REASONS = ("wiped", "old", "away", "garbage", "overflow", "unmarked")
#: The number is used again: these prove no delivery.
_UNDELIVERED = frozenset({CheckOutcome.LOST, CheckOutcome.UNDELIVERED})
#: Something came back: of the others no time of the application's is known.
_ANSWERED = ("commit", "rollback", "unknown", "no_answer")
#: In the life of the process: each name is a series that whoever scrapes keeps for weeks.
TOPICS_NAMED_MAX = 500
#: As many half partitions as a setting may ask for.
_PARTITIONS = tuple(str(partition) for partition in range(1_000))

_Child = TypeVar("_Child", Counter, Histogram)


def error_codes() -> frozenset[str]:
    """Every code an error of ours can carry."""
    found: set[str] = set()
    waiting: list[type[HalfHitchError]] = [HalfHitchError]
    while waiting:
        kind = waiting.pop()
        found.add(kind.code)
        waiting += kind.__subclasses__()
    return frozenset(found)


class _Family(Generic[_Child]):
    """One metric and its children, each made once: on the hot path a dict access.

    `allowed` has the closed set of each label. Values outside become "other" and are not
    remembered, so nothing here grows with what callers send.
    """

    __slots__ = ("_allowed", "_children", "_parent")

    def __init__(self, parent: _Child, *allowed: Iterable[str]) -> None:
        self._parent: _Child = parent
        self._allowed = tuple(frozenset(values) for values in allowed)
        self._children: dict[tuple[str, ...], _Child] = {}

    def begin(self, *first: str) -> None:
        """Have all series that there can be, or those whose first labels are these, at 0."""
        for rest in itertools.product(*self._allowed[len(first) :]):
            self(*first, *rest)

    def __call__(self, *values: str) -> _Child:
        child = self._children.get(values)
        if child is None:
            values = tuple(
                value if value in known else OTHER
                for value, known in zip(values, self._allowed, strict=True)
            )
            child = self._children[values] = self._parent.labels(*values)
        return child


class _Topics:
    """A counter by topic, told on any thread: the first ones have a line of their own."""

    def __init__(self, parent: Counter) -> None:
        self._parent = parent
        self._children: dict[str, Counter] = {}
        self._lock = threading.Lock()

    def __call__(self, topic: str) -> Counter:
        child = self._children.get(topic)
        if child is not None:
            return child
        with self._lock:
            if topic not in self._children and len(self._children) >= TOPICS_NAMED_MAX:
                return self._parent.labels(OTHER)
            return self._children.setdefault(topic, self._parent.labels(topic))


class Metrics:
    """ports.Observer that counts; one for a process, with a registry of its own."""

    content_type = CONTENT_TYPE_LATEST
    content_type_with_examples = openmetrics.CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        prometheus_client.ProcessCollector(registry=self.registry)
        prometheus_client.GCCollector(registry=self.registry)
        self._owned = OwnedCollector()
        self.registry.register(self._owned)
        self._rocketmq = RocketmqCollector()
        self.registry.register(self._rocketmq)
        self._access = AccessCollector()
        self.registry.register(self._access)
        codes = error_codes()
        counter, histogram = self._counter, self._histogram

        self._requests = _Family(counter("halfhitch_http_requests_total"), _ROUTES, _STATUSES)
        self._request_s = _Family(histogram("halfhitch_http_request_seconds"), _ROUTES)
        self._refused_connections = _Family(
            counter("halfhitch_refused_connections_total"), _DOORS, _REFUSED
        )
        self._prepared = self._hot_counter("halfhitch_prepared_transactions_total").line()
        self._prepared_messages = self._hot_counter("halfhitch_prepared_messages_total").line()
        self._prepare_s = self._hot_histogram("halfhitch_prepare_seconds").line()
        self._prepare_refused = _Family(counter("halfhitch_prepare_refused_total"), codes)
        self._decisions = self._hot_counter("halfhitch_decisions_total")
        self._decide_s = self._hot_histogram("halfhitch_decide_seconds")
        self._ended: dict[tuple[Resolution, ResolutionSource], tuple[Count, Buckets]] = {}
        self._end_refused = _Family(counter("halfhitch_end_refused_total"), codes)
        self._visible_s = self._hot_histogram("halfhitch_visible_latency_seconds").line()
        self._visible_lock = threading.Lock()  # each owner has a thread of its own
        self._committed = counter("halfhitch_commit_messages_total")
        self._topics = _Topics(counter("halfhitch_topic_messages_total"))
        self._append_s = self._hot_histogram("halfhitch_kafka_append_seconds").line()
        self._rolled_back = counter("halfhitch_rollback_messages_total")
        self._parked = counter("halfhitch_parked_transactions_total")
        self._parked_messages = counter("halfhitch_parked_messages_total")
        self._kafka_transactions = _Family(
            counter("halfhitch_kafka_transactions_total"), _PARTITIONS, _OUTCOMES
        )
        self._kafka_transaction_s = _Family(
            histogram("halfhitch_kafka_transaction_seconds"), _OUTCOMES
        )
        self._recycled = _Family(counter("halfhitch_producers_recycled_total"), _PARTITIONS)
        self._left_total = counter("halfhitch_producers_left_total")
        self._left = self._gauge("halfhitch_left_producers")
        self._targets_away = counter("halfhitch_targets_away_total")
        self._conflicts = _Family(counter("halfhitch_conflicts_total"), list(ConflictKind))
        self._unknown_decisions = counter("halfhitch_unknown_decisions_total")
        self._garbage = _Family(counter("halfhitch_garbage_records_total"), _LOGS)
        self._takeovers = _Family(counter("halfhitch_takeovers_total"), _PARTITIONS)
        self._old_watermarks = _Family(counter("halfhitch_old_watermarks_total"), _PARTITIONS)
        self._replay_s = histogram("halfhitch_replay_seconds")
        self._replayed = counter("halfhitch_replayed_records_total")
        self._checks_sent = counter("halfhitch_checks_sent_total")
        self._check_lag_s = histogram("halfhitch_check_lag_seconds")
        self._check_answer_s = _Family(histogram("halfhitch_check_answer_seconds"), _ANSWERED)
        self._check_outcomes = _Family(
            counter("halfhitch_check_outcomes_total"), list(CheckOutcome)
        )
        self._undelivered = counter("halfhitch_checks_undelivered_total")
        self._given_up = _Family(
            counter("halfhitch_given_up_transactions_total"), _GIVE_UP_POLICIES, _GIVE_UP_REASONS
        )
        self._renewed = counter("halfhitch_renewed_transactions_total")
        self._resumed = counter("halfhitch_resumed_transactions_total")
        self._entries = _Family(counter("halfhitch_audit_entries_total"), ("written", "lost"))
        self._redis_up: Gauge | None = None
        self._redis_lock = threading.Lock()
        self._redis_rebuilds = _Family(counter("halfhitch_redis_rebuilds_total"), _REBUILD_REASONS)
        self._loop_lag = self._gauge("halfhitch_event_loop_lag_seconds")
        self._begin()
        self._gauge("halfhitch_build_info").labels(__version__, platform.python_version()).set(1)

    def _begin(self) -> None:
        """Series from the start. Of requests those that tell of trouble, and of histograms with
        labels none: they would be most of what is scraped."""
        for family in (
            *(self._conflicts, self._garbage, self._check_outcomes, self._given_up, self._entries),
            *(self._prepare_refused, self._end_refused, self._refused_connections),
        ):
            family.begin()
        for route in _ROUTES:
            for status in _FIRST_STATUSES:
                self._requests(route, status)
        for resolution, source in itertools.product(Resolution, ResolutionSource):
            self._ends(resolution, source)
        self._latencies: dict[Latency, Buckets] = {
            "prepare": self._prepare_s,
            "commit": self._decide_s.line("commit"),
            "rollback": self._decide_s.line("rollback"),
            "visible": self._visible_s,
        }
        self._begun_count = 0  # of half partitions

    def _counter(self, name: str) -> Counter:
        return Counter(name, METRICS[name].help, METRICS[name].labels, registry=self.registry)

    def _gauge(self, name: str) -> Gauge:
        return Gauge(name, METRICS[name].help, METRICS[name].labels, registry=self.registry)

    def _histogram(self, name: str) -> Histogram:
        row = METRICS[name]
        return Histogram(name, row.help, row.labels, registry=self.registry, buckets=row.buckets)

    def _hot_counter(self, name: str) -> HotCounter:
        found = HotCounter(name)
        self.registry.register(found)
        return found

    def _hot_histogram(self, name: str) -> HotHistogram:
        found = HotHistogram(name)
        self.registry.register(found)
        return found

    # ports.Observer

    def prepared(self, message_count: int, elapsed_s: float) -> None:
        """A prepare was acknowledged."""
        self._prepared.inc()
        self._prepared_messages.inc(message_count)
        self._prepare_s.observe(elapsed_s)

    def all_prepared(self, elapsed_s: Sequence[float]) -> None:
        """Prepares of one message each were acknowledged."""
        self._prepared.inc(len(elapsed_s))
        self._prepared_messages.inc(len(elapsed_s))
        self._prepare_s.observe_all(elapsed_s)

    def prepare_refused(self, code: str) -> None:
        """A prepare was answered with this error code."""
        self._prepare_refused(code).inc()

    def ended(self, resolution: Resolution, source: ResolutionSource, elapsed_s: float) -> None:
        """A decision became durable."""
        lines = self._ended.get((resolution, source)) or self._ends(resolution, source)
        lines[0].inc()
        lines[1].observe(elapsed_s)

    def all_ended(
        self, resolution: Resolution, source: ResolutionSource, elapsed_s: Sequence[float]
    ) -> None:
        """Decisions of one kind became durable."""
        lines = self._ended.get((resolution, source)) or self._ends(resolution, source)
        lines[0].inc(len(elapsed_s))
        lines[1].observe_all(elapsed_s)

    def _ends(self, resolution: Resolution, source: ResolutionSource) -> tuple[Count, Buckets]:
        label = resolution.name.lower()
        lines = self._decisions.line(label, source.value), self._decide_s.line(label)
        return self._ended.setdefault((resolution, source), lines)

    def end_refused(self, code: str) -> None:
        """An end was answered with this error code."""
        self._end_refused(code).inc()

    def conflict(self, kind: ConflictKind, count: int) -> None:
        """Conflicts were recorded in the op log."""
        self._conflicts(kind).inc(count)

    def unknown_decisions(self, count: int) -> None:
        """Decisions were dropped because nothing is known of their transaction."""
        self._unknown_decisions.inc(count)

    def garbage(self, topic_role: str, count: int) -> None:
        """Unreadable records were passed over."""
        self._garbage(topic_role).inc(count)

    def parked(self, transaction_count: int, message_count: int) -> None:
        """Transactions were parked."""
        self._parked.inc(transaction_count)
        self._parked_messages.inc(message_count)

    def kafka_transaction(
        self,
        partition: int,
        outcome: str,
        elapsed_s: float,
        forwarded_count: int,
        dropped_count: int,
    ) -> None:
        """The owner ended a Kafka transaction. What an unknown end forwarded is not counted here:
        it is counted when the truth is read again and the rest is forwarded."""
        self._kafka_transactions(str(partition), outcome).inc()
        self._kafka_transaction_s(outcome).observe(elapsed_s)
        if outcome == "ok":
            self._committed.inc(forwarded_count)
            self._rolled_back.inc(dropped_count)

    def producer_recycled(self, partition: int) -> None:
        """The owner's producer was replaced."""
        self._recycled(str(partition)).inc()

    def producer_left(self, partition: int, is_left: bool) -> None:  # noqa: ARG002, FBT001 - the same
        """One is left in a call that hangs, or is gone. Both series are there from the start."""
        if is_left:
            self._left_total.inc()
            self._left.inc()
        else:
            self._left.dec()

    def target_away(self, topic: str, is_away: bool) -> None:  # noqa: ARG002, FBT001 - the port's form
        """A target is away, or back; topics are the users' own and would be too many labels."""
        if is_away:
            self._targets_away.inc()

    def unreadable(self, counts: Mapping[tuple[str, int], int]) -> None:
        """What is hidden from readers now."""
        self._owned.unreadable = counts

    def forwarded_after(self, elapsed_s: float, transaction_count: int) -> None:
        """So many commits became visible this long after they were stored."""
        with self._visible_lock:
            self._visible_s.observe(max(0.0, elapsed_s), transaction_count)

    def traced(self, latency: Latency, elapsed_s: float, trace_id: str, wall_ms: int) -> None:
        """An example of a latency. Nothing of it is on the way of those without a trace."""
        self._latencies[latency].example(max(0.0, elapsed_s), trace_id, wall_ms / 1000)

    def forwarded(self, counts: Mapping[str, int]) -> None:
        """So many messages became visible, by topic."""
        for topic, count in counts.items():
            if count:
                self._topics(topic).inc(count)

    def parked_open(self, transaction_count: int | None) -> None:
        """So many are parked now; who is not the one to tell has no gauge that says 0."""
        self._owned.parked_open = transaction_count

    def appended(self, elapsed_s: float) -> None:
        """Records of one partition were answered; on the event loop."""
        self._append_s.observe(elapsed_s)

    def takeover(self, partition: int, elapsed_s: float, replayed_count: int) -> None:
        """A partition was taken over."""
        self._takeovers(str(partition)).inc()
        self._replay_s.observe(elapsed_s)
        self._replayed.inc(replayed_count)

    def old_watermarks(self, partition: int) -> None:
        """Kafka had forgotten what was committed; the op log had not."""
        self._old_watermarks(str(partition)).inc()

    def check_sent(self, producer_group: str, lag_s: float, trace_id: str | None = None) -> None:  # noqa: ARG002 - the port's form
        """A check was handed to a producer. Not by group: there may be any number of them."""
        self._checks_sent.inc()
        self._check_lag_s.observe(max(0.0, lag_s), _example(trace_id))

    def check_settled(self, producer_group: str, outcome: str, elapsed_s: float) -> None:  # noqa: ARG002 - the same
        """What became of a check."""
        self._check_outcomes(outcome).inc()
        if outcome in _ANSWERED:
            self._check_answer_s(outcome).observe(max(0.0, elapsed_s))
        if outcome in _UNDELIVERED:
            self._undelivered.inc()

    def given_up(self, policy: str, reason: str, count: int) -> None:
        """Undecided transactions were given up."""
        self._given_up(policy, reason).inc(count)

    def renewed(self, count: int) -> None:
        """Old pending transactions were re-appended without being checked."""
        self._renewed.inc(count)

    def resumed(self, count: int) -> None:
        """Parked transactions were put back."""
        self._resumed.inc(count)

    def stories(self, written_count: int, lost_count: int) -> None:
        """Entries were written to the audit topic, or lost."""
        self._entries("written").inc(written_count)
        if lost_count:
            self._entries("lost").inc(lost_count)

    def redis(self, healthy: bool) -> None:  # noqa: FBT001 - the port's form
        """Redis answers, or does not. Without Redis there must be no gauge that says it is down."""
        with self._redis_lock:
            if self._redis_up is None:
                self._redis_rebuilds.begin()
                self._redis_up = self._gauge("halfhitch_redis_up")
        self._redis_up.set(healthy)

    def redis_rebuilt(self, reason: str) -> None:
        """What Redis held was not ours any more."""
        self._redis_rebuilds(reason).inc()

    # The doors

    def connection_refused(self, door: str, reason: str) -> None:
        """A connection or a check stream was turned away."""
        self._refused_connections(door, reason).inc()

    def http_request(
        self, route: str, status: int, elapsed_s: float, trace: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        """The data door has answered a request; `route` is the route's name, never a path, and
        `trace` its headers of that kind."""
        self._requests(route, str(status)).inc()
        example = _example(sampled_request(trace)) if trace else None
        self._request_s(route).observe(elapsed_s, example)

    def http_requests(self, route: str, status: int, elapsed_s: Sequence[float]) -> None:
        """The data door has answered several in the same way."""
        self._requests(route, str(status)).inc(len(elapsed_s))
        observe = self._request_s(route).observe
        for one_s in elapsed_s:
            observe(one_s)

    def rocketmq(self, source: Callable[[], RocketmqNumbers]) -> None:
        """There is a RocketMQ door; `source` gives its numbers, on any thread."""
        self._rocketmq.source = source

    def access(self, source: Callable[[], Numbers]) -> None:
        """`source` tells, on any thread, who was refused."""
        self._access.source = source

    def membership(self, source: Callable[[], tuple[int, MembershipState | None]]) -> None:
        """`source` tells, on any thread, how many half partitions there are, and how this instance
        stands in the owners' group; None if it shall own none."""
        self._owned.membership = partial(self._with_series, source)

    def _with_series(
        self, source: Callable[[], tuple[int, MembershipState | None]]
    ) -> tuple[int, MembershipState | None]:
        """What it says; and what can happen to any half partition has its series."""
        found = source()
        for partition in range(self._begun_count, found[0]):
            self._takeovers.begin(str(partition))
            self._old_watermarks.begin(str(partition))
        self._begun_count = max(self._begun_count, found[0])
        return found

    def reach(self, source: Reach) -> None:
        """`source` tells which producer groups can be asked."""
        self._owned.reach = source

    def queued(self, source: Callable[[], int]) -> None:
        """`source` tells, on any thread, how many records wait for Kafka."""
        self._gauge("halfhitch_kafka_queued_records").set_function(source)

    def loop_lag(self, elapsed_s: float) -> None:
        """The event loop was this late."""
        self._loop_lag.set(elapsed_s)

    def render(
        self, partitions: Sequence[PartitionState] = (), *, with_examples: bool = False
    ) -> bytes:
        """Everything in the text format. Takes milliseconds: call it in a thread, not on a loop.

        `partitions` is a snapshot taken beforehand, on the thread that may ask for it.
        `with_examples`: as OpenMetrics, which has the traces beside the buckets of histograms.
        """
        self._owned.states = partitions
        for state in partitions:
            self._kafka_transactions.begin(str(state.partition))
            self._recycled.begin(str(state.partition))
        if with_examples:
            found: bytes = openmetrics.generate_latest(self.registry)  # type: ignore[no-untyped-call]
            return found
        return generate_latest(self.registry)


def _example(trace_id: str | None) -> dict[str, str] | None:
    return None if trace_id is None else {"trace_id": trace_id}
