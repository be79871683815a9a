"""The table of metrics is the only source of names, and no caller can grow the output."""

import re
import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from halfhitch import __version__
from halfhitch.access import Numbers
from halfhitch.core.model import ConflictKind, Resolution, ResolutionSource
from halfhitch.doors.http.router import ROUTES
from halfhitch.doors.rocketmq import Snapshot
from halfhitch.errors import ForbiddenTopic
from halfhitch.observability.metrics import (
    GROUPS_MAX,
    GROUPS_NAMED_MAX,
    METRICS,
    Metrics,
    error_codes,
)
from halfhitch.ports import Observer
from halfhitch.service.api import MembershipState, PartitionPhase, PartitionState
from halfhitch.service.checking.api import CheckOutcome

#: Of the library: memory, CPU and garbage collection of the process.
LIBRARY = re.compile(r"(process|python_gc)_")


def samples(metrics: Metrics, *partitions: PartitionState) -> dict[tuple[str, str], float]:
    """Value by (name, labels as text)."""
    found: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(metrics.render(partitions).decode()):
        for sample in family.samples:
            labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()) if k != "le")
            found[sample.name, labels] = sample.value
    return found


def state(partition: int, phase: PartitionPhase = PartitionPhase.WORKING) -> PartitionState:
    found = PartitionState(partition, phase, 1, 2, 3, 4, 50, 60, 700, 900, None)
    found.due_count, found.checking_count, found.oldest_age_s = 5, 6, 7.5
    found.pending_by_group, found.clock_ahead_s = {"orders": 1}, -3.5
    found.waiting_count = 8
    return found


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
    metrics.check_settled("orders", CheckOutcome.COMMIT)
    metrics.check_settled("orders", CheckOutcome.LOST)
    metrics.check_settled("orders", CheckOutcome.UNDELIVERED)
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
    text = metrics.render([state(0)]).decode()
    shown = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    assert {name for name in shown if not LIBRARY.match(name)} == set(METRICS)
    fed = set(re.findall(r"^(halfhitch\w+?)(?:_bucket|_sum|_count)?(?:\{| )", text, re.MULTILINE))
    assert fed == set(METRICS)
    assert not re.search(r"_created\b", text)


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


def test_owned_partitions_become_gauges_and_go_when_they_are_given_up() -> None:
    metrics = Metrics()
    found = samples(metrics, state(0), state(3, PartitionPhase.FAILED))
    assert found["halfhitch_half_messages", "partition=0"] == 1
    assert found["halfhitch_decided_transactions", "partition=0"] == 2
    assert found["halfhitch_early_decisions", "partition=0"] == 3
    assert found["halfhitch_finished_transactions", "partition=0"] == 4
    assert found["halfhitch_half_replay_records", "partition=0"] == 10
    assert found["halfhitch_op_replay_records", "partition=0"] == 200
    assert found["halfhitch_due_checks", "partition=0"] == 5
    assert found["halfhitch_checks_in_flight", "partition=0"] == 6
    assert found["halfhitch_oldest_undecided_age_seconds", "partition=0"] == 7.5
    assert found["halfhitch_waiting_transactions", "partition=0"] == 8
    assert found["halfhitch_clock_ahead_seconds", "partition=0"] == -3.5
    assert found["halfhitch_pending_transactions", "group=orders"] == 2  # of both partitions
    assert found["halfhitch_partition_owned", "partition=0"] == 1
    assert found["halfhitch_partition_owned", "partition=3"] == 0
    assert found["halfhitch_partition_phase", "partition=3,phase=failed"] == 1
    assert found["halfhitch_partition_phase", "partition=3,phase=working"] == 0
    assert ("halfhitch_half_messages", "partition=0") not in samples(metrics, state(3))


def test_the_gauge_of_ownership_is_0_and_not_gone_for_what_is_not_owned() -> None:
    """An alert on a line that vanishes resolves itself, and in an outage all lines vanished."""
    metrics = Metrics()
    metrics.membership(lambda: (4, MembershipState(is_joined=True, outside_s=0.0)))
    found = samples(metrics, state(1), state(2, PartitionPhase.TAKING_OVER))
    owned = [found["halfhitch_partition_owned", f"partition={p}"] for p in range(4)]
    assert owned == [0, 1, 0, 0]
    assert ("halfhitch_half_messages", "partition=0") not in found, "nobody here knows"
    metrics.membership(lambda: (4, MembershipState(is_joined=False, outside_s=41.5)))
    found = samples(metrics)
    assert [found["halfhitch_partition_owned", f"partition={p}"] for p in range(4)] == [0] * 4
    assert found["halfhitch_membership_joined", ""] == 0
    assert found["halfhitch_membership_outside_seconds", ""] == 41.5


def test_who_shall_own_nothing_has_no_gauge_that_says_it_is_outside() -> None:
    metrics = Metrics()
    metrics.membership(lambda: (4, None))
    assert "halfhitch_membership_joined " not in metrics.render().decode()


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
            metrics.check_settled(text, text)
            metrics.given_up(text, text, 1)
            metrics.redis_rebuilt(text)
        return len(metrics.render().splitlines())

    once = flood(0)
    assert flood(500) == once
    assert samples(metrics)["halfhitch_http_requests_total", "route=other,status=other"] == 1000
    assert "made-up" not in metrics.render().decode()


def test_only_the_groups_with_most_pending_have_a_line_of_their_own() -> None:
    first, second = state(0), state(1)
    first.pending_by_group = {f"g{number:03}": number + 1 for number in range(100)}
    second.pending_by_group = {"g099": 5, "g000": 1}
    found = samples(Metrics(), first, second)
    shown = {labels: value for (name, labels), value in found.items() if "pending_tr" in name}
    assert len(shown) == GROUPS_MAX + 1
    assert shown["group=g099"] == 105
    assert "group=g000" not in shown
    assert sum(shown.values()) == sum(range(1, 101)) + 6
    assert shown["group=other"] == sum(range(1, 81)) + 1


def test_groups_with_new_names_at_every_scrape_do_not_grow_the_series() -> None:
    metrics, seen = Metrics(), set[str]()
    for scrape in range(100):
        owned = state(0)
        owned.pending_by_group = {f"made-up-{scrape}-{number}": 5 for number in range(GROUPS_MAX)}
        owned.pending_by_group["made-up-0-0"] = 7
        found = samples(metrics, owned)
        shown = {labels: value for (name, labels), value in found.items() if "pending_tr" in name}
        assert sum(shown.values()) == sum(owned.pending_by_group.values())
        assert shown["group=made-up-0-0"] == 7, "who has a line keeps it"
        seen |= set(shown)
    assert len(seen) == GROUPS_NAMED_MAX + 1


def test_a_group_with_unusual_characters_is_shown_in_one_line() -> None:
    owned = state(0)
    owned.pending_by_group = {'a"b\\c\nü{}': 3, "other": 4}
    families = text_string_to_metric_families(Metrics().render([owned]).decode())
    found = {
        sample.labels["group"]: sample.value
        for family in families
        for sample in family.samples
        if sample.name == "halfhitch_pending_transactions"
    }
    assert found == {'a"b\\c\\nü{}': 3, "other": 4}


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
