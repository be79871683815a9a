"""The table of metrics is the only source of names, and no caller can grow the output."""

import io
import re
import threading

import pytest
from prometheus_client.openmetrics.parser import text_fd_to_metric_families

from halfhitch import __version__
from halfhitch.access import Numbers
from halfhitch.adapters.redis import writer
from halfhitch.core.model import ConflictKind, Resolution, ResolutionSource
from halfhitch.doors.http.router import ROUTES
from halfhitch.doors.rocketmq import Snapshot
from halfhitch.errors import ForbiddenTopic
from halfhitch.observability import metrics as module
from halfhitch.observability.metrics import (
    METRICS,
    TOPICS_NAMED_MAX,
    Metrics,
    error_codes,
)
from halfhitch.observer import Latency
from halfhitch.ports import Observer
from halfhitch.service.api import MembershipState
from halfhitch.service.checking.api import CheckOutcome
from harness.scraped import owned, samples

#: Of the library: memory, CPU and garbage collection of the process.
LIBRARY = re.compile(r"(process|python_gc)_")


class Nobody:
    """service.api.Reach: nobody can be asked."""

    def links(self) -> dict[str, int]:
        return {}

    def is_elsewhere(self, producer_group: str) -> bool:
        return not producer_group


def exercise(metrics: Metrics) -> None:
    metrics.prepared(3, 0.01)
    metrics.stories(2, 1)
    metrics.prepare_refused(ForbiddenTopic.code)
    metrics.access(
        lambda: Numbers({"http": 1}, {("shop", "check"): 1}, {"shop": 1}, 2, True, False)
    )
    metrics.ended(Resolution.COMMIT, ResolutionSource.PRODUCER, 0.02)
    metrics.end_refused("contrary_decision")
    metrics.conflict(ConflictKind.CONTRARY, 2)
    metrics.unknown_decisions(4)
    metrics.garbage("op", 5)
    metrics.kafka_transaction(1, "ok", 0.03, 6, 7)
    metrics.unreadable({("orders", 2): 23})
    metrics.forwarded_after(0.5, 3)
    metrics.forwarded({"orders": 4, "points": 2})
    metrics.forwarded({"orders": 1, "parked": 0})
    metrics.appended(0.004)
    metrics.queued(lambda: 12)
    metrics.parked_open(2)
    metrics.reach(Nobody())
    metrics.parked(2, 5)
    metrics.takeover(1, 1.5, 8)
    metrics.old_watermarks(1)
    metrics.producer_recycled(1)
    for is_left in (True, True, False):
        metrics.producer_left(1, is_left)
    metrics.target_away("orders", True)
    metrics.target_away("orders", False)
    metrics.http_request("prepare", 201, 0.001)
    metrics.connection_refused("http", "peer")
    metrics.loop_lag(0.25)
    metrics.membership(lambda: (2, MembershipState(is_joined=True, outside_s=0.0)))
    metrics.check_sent("orders", 0.75)
    metrics.check_settled("orders", CheckOutcome.COMMIT, 0.5)
    metrics.check_settled("orders", CheckOutcome.LOST, 9.0)
    metrics.check_settled("orders", CheckOutcome.UNDELIVERED, 0.0)
    metrics.given_up("park", "too_old", 2)
    metrics.renewed(3)
    metrics.resumed(4)
    metrics.redis(True)
    metrics.redis_rebuilt("wiped")
    metrics.rocketmq(
        lambda: Snapshot(
            *({("send", 0): 9, ("send", 2): 1}, {"overloaded": 3}, 4, 5, 6, 7),
            *({"identity": 2}, 8, {"bytes": 1}),
        )
    )


def test_every_metric_of_the_table_is_fed_and_none_is_outside_of_it() -> None:
    metrics = Metrics()
    exercise(metrics)
    text = metrics.render([owned(0)]).decode()
    shown = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    assert {name for name in shown if not LIBRARY.match(name)} == set(METRICS)
    fed = set(re.findall(r"^(halfhitch\w+?)(?:_bucket|_sum|_count)?(?:\{| )", text, re.MULTILINE))
    assert fed == set(METRICS)
    assert not re.search(r"_created\b", text)


def test_what_is_told_of_many_at_once_counts_for_each() -> None:
    metrics = Metrics()
    metrics.all_prepared([0.01, 0.02])
    metrics.all_ended(Resolution.COMMIT, ResolutionSource.PRODUCER, [0.02, 0.03, 0.04])
    found = samples(metrics)
    assert found["halfhitch_prepared_transactions_total", ""] == 2
    assert found["halfhitch_prepared_messages_total", ""] == 2
    assert found["halfhitch_prepare_seconds_count", ""] == 2
    assert found["halfhitch_decisions_total", "resolution=commit,source=producer"] == 3


def test_answers_of_the_data_door_that_are_told_together_count_for_each() -> None:
    metrics = Metrics()
    metrics.http_requests("half", 201, [0.01, 0.02])
    found = samples(metrics)
    assert found["halfhitch_http_requests_total", "route=half,status=201"] == 2
    assert found["halfhitch_http_request_seconds_count", "route=half"] == 2


def test_what_is_told_is_counted() -> None:
    metrics = Metrics()
    exercise(metrics)
    found = samples(metrics)
    assert found["halfhitch_prepared_transactions_total", ""] == 1
    assert found["halfhitch_prepared_messages_total", ""] == 3
    assert found["halfhitch_prepare_seconds_sum", ""] == 0.01
    assert found["halfhitch_prepare_refused_total", "code=forbidden_topic"] == 1
    assert found["halfhitch_decisions_total", "resolution=commit,source=producer"] == 1
    assert found["halfhitch_end_refused_total", "code=contrary_decision"] == 1
    assert found["halfhitch_conflicts_total", "kind=contrary"] == 2
    assert found["halfhitch_unknown_decisions_total", ""] == 4
    assert found["halfhitch_unreadable_records", "partition=2,topic=orders"] == 23
    assert found["halfhitch_garbage_records_total", "log=op"] == 5
    assert found["halfhitch_commit_messages_total", ""] == 6
    assert found["halfhitch_rollback_messages_total", ""] == 7
    assert found["halfhitch_kafka_transactions_total", "outcome=ok,partition=1"] == 1
    assert found["halfhitch_visible_latency_seconds_sum", ""] == 1.5
    assert found["halfhitch_topic_messages_total", "topic=orders"] == 5
    assert ("halfhitch_topic_messages_total", "topic=parked") not in found
    assert found["halfhitch_kafka_append_seconds_sum", ""] == 0.004
    assert found["halfhitch_kafka_queued_records", ""] == 12
    assert found["halfhitch_visible_latency_seconds_count", ""] == 3
    assert found["halfhitch_parked_transactions_total", ""] == 2
    assert found["halfhitch_parked_messages_total", ""] == 5
    assert found["halfhitch_takeovers_total", "partition=1"] == 1
    assert found["halfhitch_replayed_records_total", ""] == 8
    assert found["halfhitch_old_watermarks_total", "partition=1"] == 1
    assert found["halfhitch_producers_left_total", ""] == 2
    assert found["halfhitch_left_producers", ""] == 1
    assert found["halfhitch_http_requests_total", "route=prepare,status=201"] == 1
    assert found["halfhitch_rocketmq_requests_total", "code=0,request=send"] == 9
    assert found["halfhitch_rocketmq_requests_total", "code=2,request=send"] == 1
    assert found["halfhitch_rocketmq_failed_oneway_ends_total", "code=overloaded"] == 3
    assert found["halfhitch_rocketmq_connections", ""] == 4
    assert found["halfhitch_rocketmq_native_requests_total", ""] == 7
    assert found["halfhitch_rocketmq_producers", ""] == 5
    assert found["halfhitch_rocketmq_in_flight_requests", ""] == 6
    assert found["halfhitch_rocketmq_in_flight_bytes", ""] == 8
    assert found["halfhitch_rocketmq_refused_producers_total", "reason=identity"] == 2
    assert found["halfhitch_rocketmq_busy_answers_total", "reason=bytes"] == 1
    assert found["halfhitch_event_loop_lag_seconds", ""] == 0.25
    assert found["halfhitch_checks_sent_total", ""] == 1
    assert found["halfhitch_check_lag_seconds_sum", ""] == 0.75
    assert found["halfhitch_check_outcomes_total", "outcome=commit"] == 1
    assert found["halfhitch_check_outcomes_total", "outcome=lost"] == 1
    assert found["halfhitch_check_answer_seconds_sum", "outcome=commit"] == 0.5
    assert ("halfhitch_check_answer_seconds_sum", "outcome=lost") not in found, "no answer came"
    assert found["halfhitch_checks_undelivered_total", ""] == 2
    assert found["halfhitch_given_up_transactions_total", "policy=park,reason=too_old"] == 2
    assert found["halfhitch_renewed_transactions_total", ""] == 3
    assert found["halfhitch_resumed_transactions_total", ""] == 4
    assert found["halfhitch_redis_up", ""] == 1
    assert found["halfhitch_redis_rebuilds_total", "reason=wiped"] == 1
    build = [labels for name, labels in found if name == "halfhitch_build_info"]
    assert len(build) == 1
    assert f"version={__version__}" in build[0]


def test_producers_that_are_left_are_counted_from_the_start() -> None:
    """Else the first one is no increase to whoever watches."""
    found = samples(Metrics())
    assert found["halfhitch_producers_left_total", ""] == 0
    assert found["halfhitch_left_producers", ""] == 0


@pytest.mark.parametrize("outcome", ["fail", "unknown"])
def test_messages_of_a_kafka_transaction_that_is_not_surely_done_are_not_counted(
    outcome: str,
) -> None:
    metrics = Metrics()
    metrics.kafka_transaction(0, outcome, 0.1, 5, 5)
    found = samples(metrics)
    assert found["halfhitch_commit_messages_total", ""] == 0
    assert found["halfhitch_rollback_messages_total", ""] == 0
    assert found["halfhitch_kafka_transactions_total", f"outcome={outcome},partition=0"] == 1


def test_values_from_callers_cannot_grow_the_output() -> None:
    metrics = Metrics()
    exercise(metrics)

    def flood(first: int) -> int:
        for number in range(first, first + 500):
            text = f"made-up-{number}"
            metrics.http_request(text, 1000 + number, 0.1)
            metrics.prepare_refused(text)
            metrics.end_refused(text)
            metrics.garbage(text, 1)
            metrics.kafka_transaction(10_000 + number, text, 0.1, 0, 0)
            metrics.takeover(10_000 + number, 0.1, 0)
            metrics.check_sent(text, 0.1)
            metrics.check_settled(text, text, 0.1)
            metrics.given_up(text, text, 1)
            metrics.redis_rebuilt(text)
        return len(metrics.render().splitlines())

    once = flood(0)
    assert flood(500) == once
    assert samples(metrics)["halfhitch_http_requests_total", "route=other,status=other"] == 1000
    assert "made-up" not in metrics.render().decode()


def test_without_redis_no_gauge_says_that_it_is_down() -> None:
    metrics = Metrics()
    assert "halfhitch_redis_up " not in metrics.render().decode()
    metrics.redis(False)
    assert samples(metrics)["halfhitch_redis_up", ""] == 0
    metrics.redis(True)
    assert samples(metrics)["halfhitch_redis_up", ""] == 1


def test_every_route_of_the_data_door_has_a_label_of_its_own() -> None:
    metrics = Metrics()
    for route in ROUTES:
        metrics.http_request(route.name, 200, 0.1)
    assert ("halfhitch_http_requests_total", "route=other,status=200") not in samples(metrics)
    assert samples(metrics)["halfhitch_http_requests_total", "route=checks,status=200"] == 1


def test_every_error_code_has_a_label_of_its_own() -> None:
    assert {"forbidden_topic", "outcome_unknown", "overloaded", "topology"} <= error_codes()
    metrics = Metrics()
    for code in error_codes():
        metrics.end_refused(code)
    found = samples(metrics)
    assert all(found["halfhitch_end_refused_total", f"code={code}"] == 1 for code in error_codes())


def test_it_is_an_observer_for_any_thread() -> None:
    metrics = Metrics()
    observer: Observer = metrics
    threads = [
        threading.Thread(target=lambda: [observer.prepared(1, 0.1) for _ in range(500)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert samples(metrics)["halfhitch_prepared_transactions_total", ""] == 2000


def test_two_sets_of_metrics_do_not_mix() -> None:
    first, second = Metrics(), Metrics()
    first.prepared(1, 0.1)
    assert samples(second)["halfhitch_prepared_transactions_total", ""] == 0


def test_topics_beyond_the_first_share_a_line() -> None:
    metrics = Metrics()
    for number in range(TOPICS_NAMED_MAX + 100):
        metrics.forwarded({f"topic-{number}": 2})
    metrics.forwarded({"topic-0": 1})
    found = samples(metrics)
    lines = {labels: value for (name, labels), value in found.items() if "topic_messages" in name}
    assert len(lines) == TOPICS_NAMED_MAX + 1
    assert (lines["topic=topic-0"], lines["topic=other"]) == (3, 200)


def test_the_first_conflict_was_no_increase_because_its_series_began_with_it() -> None:
    """`increase` of a series that begins at 1 is 0, so its alert stayed silent."""
    metrics = Metrics()
    metrics.membership(lambda: (2, None))
    metrics.redis(True)
    samples(metrics)  # whoever counts half partitions is asked by a scrape
    found = samples(metrics, owned(1))
    for name, labels in (
        *(("halfhitch_conflicts_total", f"kind={kind}") for kind in ConflictKind),
        ("halfhitch_prepare_refused_total", "code=owner_lags"),
        ("halfhitch_given_up_transactions_total", "policy=park,reason=too_old"),
        ("halfhitch_check_outcomes_total", "outcome=silent"),
        ("halfhitch_audit_entries_total", "outcome=lost"),
        ("halfhitch_decisions_total", "resolution=rollback,source=operator"),
        ("halfhitch_refused_connections_total", "door=http,reason=peer"),
        ("halfhitch_http_requests_total", "route=prepare,status=503"),
        ("halfhitch_redis_rebuilds_total", "reason=wiped"),
        ("halfhitch_old_watermarks_total", "partition=0"),
        ("halfhitch_takeovers_total", "partition=1"),
        ("halfhitch_producers_recycled_total", "partition=1"),
        ("halfhitch_kafka_transactions_total", "outcome=unknown,partition=1"),
    ):
        assert found[name, labels] == 0, name
    assert ("halfhitch_producers_recycled_total", "partition=0") not in found, "not owned here"


def test_each_reason_to_write_redis_anew_has_its_line() -> None:
    assert set(module._REBUILD_REASONS) == set(writer._REASONS)


def test_traces_stand_beside_the_buckets_they_fell_into_for_whoever_reads_openmetrics() -> None:
    metrics = Metrics()
    exercise(metrics)
    given: list[Latency] = ["prepare", "commit", "rollback", "visible"]
    for latency in given:
        metrics.traced(latency, 0.02, latency, 1_700_000_000_500)
    metrics.traced("visible", -3.0, "clocks", 1_700_000_000_500)
    metrics.check_sent("orders", 0.75, "check")
    parent = (b"traceparent", f"00-{'ab' * 16}-{'cd' * 8}-01".encode())
    metrics.http_request("prepare", 201, 0.001, (parent,))
    text = metrics.render([owned(0)], with_examples=True).decode()
    found = {
        (family.name, sample.labels["le"], sample.exemplar.labels["trace_id"])
        for family in text_fd_to_metric_families(io.StringIO(text))
        for sample in family.samples
        if sample.exemplar is not None
    }
    assert found == {
        ("halfhitch_prepare_seconds", "0.025", "prepare"),
        ("halfhitch_decide_seconds", "0.025", "commit"),
        ("halfhitch_decide_seconds", "0.025", "rollback"),
        ("halfhitch_visible_latency_seconds", "0.025", "visible"),
        ("halfhitch_visible_latency_seconds", "0.0025", "clocks"),
        ("halfhitch_check_lag_seconds", "1.0", "check"),
        ("halfhitch_http_request_seconds", "0.001", "ab" * 16),
    }
    assert " 1700000000.5\n" in text
    assert "trace_id" not in metrics.render([owned(0)]).decode()


def test_openmetrics_has_the_same_numbers() -> None:
    metrics = Metrics()
    exercise(metrics)
    plain, other = metrics.render([owned(0)]), metrics.render([owned(0)], with_examples=True)
    ours = [line for line in plain.decode().splitlines() if line.startswith("halfhitch_")]
    theirs = [line for line in other.decode().splitlines() if line.startswith("halfhitch_")]
    assert sorted(ours) == sorted(theirs)
