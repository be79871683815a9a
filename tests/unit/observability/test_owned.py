"""Gauges of what an instance owns: bounded, and gone when it owns nothing."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from halfhitch.observability.metrics import Metrics
from halfhitch.observability.owned import GROUPS_MAX, GROUPS_NAMED_MAX
from halfhitch.service.api import MembershipState, PartitionPhase
from harness.scraped import owned, samples


class Known:
    """service.api.Reach of what is written down."""

    def __init__(self, links: dict[str, int], *elsewhere: str) -> None:
        self._links, self._elsewhere = links, elsewhere

    def links(self) -> dict[str, int]:
        return self._links

    def is_elsewhere(self, producer_group: str) -> bool:
        return producer_group in self._elsewhere


def test_owned_partitions_become_gauges_and_go_when_they_are_given_up() -> None:
    metrics = Metrics()
    found = samples(metrics, owned(0), owned(3, PartitionPhase.FAILED))
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
    assert ("halfhitch_half_messages", "partition=0") not in samples(metrics, owned(3))


def test_the_gauge_of_ownership_is_0_and_not_gone_for_what_is_not_owned() -> None:
    """An alert on a line that vanishes resolves itself, and in an outage all lines vanished."""
    metrics = Metrics()
    metrics.membership(lambda: (4, MembershipState(is_joined=True, outside_s=0.0)))
    found = samples(metrics, owned(1), owned(2, PartitionPhase.TAKING_OVER))
    shown = [found["halfhitch_partition_owned", f"partition={p}"] for p in range(4)]
    assert shown == [0, 1, 0, 0]
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


def test_only_the_groups_with_most_pending_have_a_line_of_their_own() -> None:
    first, second = owned(0), owned(1)
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
        one = owned(0)
        one.pending_by_group = {f"made-up-{scrape}-{number}": 5 for number in range(GROUPS_MAX)}
        one.pending_by_group["made-up-0-0"] = 7
        one.oldest_age_by_group = {}
        found = samples(metrics, one)
        shown = {labels: value for (name, labels), value in found.items() if "pending_tr" in name}
        assert sum(shown.values()) == sum(one.pending_by_group.values())
        assert shown["group=made-up-0-0"] == 7, "who has a line keeps it"
        seen |= set(shown)
    assert len(seen) == GROUPS_NAMED_MAX + 1


def test_a_group_with_unusual_characters_is_shown_in_one_line() -> None:
    one = owned(0)
    one.pending_by_group = {'a"b\\c\nü{}': 3, "other": 4}
    families = text_string_to_metric_families(Metrics().render([one]).decode())
    found = {
        sample.labels["group"]: sample.value
        for family in families
        for sample in family.samples
        if sample.name == "halfhitch_pending_transactions"
    }
    assert found == {'a"b\\c\\nü{}': 3, "other": 4}


def test_only_groups_without_producers_here_and_elsewhere_are_unreachable() -> None:
    metrics = Metrics()
    metrics.reach(Known({"here": 2, "idle": 1}, "there"))
    one = owned(0)
    one.pending_by_group = {"here": 3, "there": 4, "dead": 5}
    found = samples(metrics, one)
    waiting = {
        g: found["halfhitch_unreachable_transactions", f"group={g}"] for g in one.pending_by_group
    }
    assert waiting == {"here": 0, "there": 0, "dead": 5}
    links = {by: v for (n, by), v in found.items() if n == "halfhitch_connected_producers"}
    assert links == {"group=here": 2, "group=there": 0, "group=dead": 0, "group=idle": 1}


def test_whoever_cannot_say_who_is_connected_does_not_say_nobody_is() -> None:
    text = Metrics().render([owned(0)]).decode()
    assert "halfhitch_unreachable_transactions" not in text
    assert "halfhitch_connected_producers" not in text


def test_the_oldest_age_of_a_group_is_that_of_all_half_partitions_and_the_rest_is_one_line() -> (
    None
):
    first, second = owned(0), owned(1)
    first.oldest_age_by_group = {f"g{number:03}": float(number) for number in range(100)}
    second.oldest_age_by_group = {"g099": 400.0, "g000": 3.0}
    found = samples(Metrics(), first, second)
    name = "halfhitch_group_oldest_undecided_age_seconds"
    shown = {labels: value for (metric, labels), value in found.items() if metric == name}
    assert len(shown) == GROUPS_MAX + 1
    assert shown["group=g099"] == 400.0
    assert shown["group=other"] == 79.0
    assert ("halfhitch_group_oldest_undecided_age_seconds", "group=orders") not in found


def test_what_is_parked_is_told_by_who_knows_it_alone() -> None:
    metrics = Metrics()
    name = "halfhitch_parked_open_transactions"
    assert (name, "") not in samples(metrics)
    metrics.parked_open(3)
    assert samples(metrics)[name, ""] == 3
    metrics.parked_open(0)
    assert samples(metrics)[name, ""] == 0
    metrics.parked_open(None)
    assert (name, "") not in samples(metrics)
