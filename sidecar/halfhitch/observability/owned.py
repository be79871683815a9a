"""What an instance owns, and whom it could ask, as gauges: read when somebody looks.

Invariant: of producer groups only the GROUPS_MAX first have a line of their own, and only
GROUPS_NAMED_MAX of them ever, so that series cannot grow from scrape to scrape; the rest is
`other`. What an instance does not own it knows no number of, and shows none: a last known one would
be a lie. But that it does not own it is a number, for whoever watches over all instances.
"""

from collections import Counter as Counts
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from halfhitch.observability.table import METRICS
from halfhitch.service.api import MembershipState, PartitionPhase, PartitionState, Reach
from halfhitch.wire.plain import shown

OTHER: Final = "other"
GROUPS_MAX: Final = 20
#: In the life of the process: each name is a series that whoever scrapes keeps for weeks.
GROUPS_NAMED_MAX: Final = 200

_PARTITION_VALUES: Final[Mapping[str, Callable[[PartitionState], float]]] = {
    "halfhitch_half_messages": lambda state: state.pending_count,
    "halfhitch_oldest_undecided_age_seconds": lambda state: state.oldest_age_s,
    "halfhitch_due_checks": lambda state: state.due_count,
    "halfhitch_checks_in_flight": lambda state: state.checking_count,
    "halfhitch_decided_transactions": lambda state: state.decided_count,
    "halfhitch_waiting_transactions": lambda state: state.waiting_count,
    "halfhitch_early_decisions": lambda state: state.early_count,
    "halfhitch_finished_transactions": lambda state: state.finished_count,
    "halfhitch_half_replay_records": lambda state: state.half_position - state.half_watermark,
    "halfhitch_op_replay_records": lambda state: state.op_position - state.op_watermark,
    "halfhitch_owner_lag_seconds": lambda state: state.lag_s,
    "halfhitch_clock_ahead_seconds": lambda state: state.clock_ahead_s,
}


class OwnedCollector(Collector):
    """Turns the last snapshot of the owned partitions into gauges."""

    def __init__(self) -> None:
        self.states: Sequence[PartitionState] = ()
        self.unreadable: Mapping[tuple[str, int], int] = {}
        self.membership: Callable[[], tuple[int, MembershipState | None]] = lambda: (0, None)
        self.reach: Reach | None = None
        self.parked_open: int | None = None
        self._named: set[str] = set()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """See prometheus_client."""
        states = self.states
        for name, value_of in _PARTITION_VALUES.items():
            family = _empty_family(name)
            for state in states:
                family.add_metric([str(state.partition)], value_of(state))
            yield family
        yield from self._ownership(states)
        yield from self._groups(states)
        if self.parked_open is not None:
            parked = _empty_family("halfhitch_parked_open_transactions")
            parked.add_metric([], self.parked_open)
            yield parked
        unreadable = _empty_family("halfhitch_unreadable_records")
        for (topic, partition), count in self.unreadable.items():
            unreadable.add_metric([topic, str(partition)], count)
        yield unreadable

    def _ownership(self, states: Sequence[PartitionState]) -> Iterator[GaugeMetricFamily]:
        half_partitions, member = self.membership()
        owned = _empty_family("halfhitch_partition_owned")
        working = {s.partition for s in states if s.phase is PartitionPhase.WORKING}
        for partition in sorted({*range(half_partitions), *(s.partition for s in states)}):
            owned.add_metric([str(partition)], partition in working)
        yield owned
        if member is not None:
            joined = _empty_family("halfhitch_membership_joined")
            joined.add_metric([], member.is_joined)
            outside = _empty_family("halfhitch_membership_outside_seconds")
            outside.add_metric([], member.outside_s)
            yield from (joined, outside)
        phases = _empty_family("halfhitch_partition_phase")
        for state in states:
            for phase in PartitionPhase:
                phases.add_metric([str(state.partition), phase.value], state.phase is phase)
        yield phases

    def _groups(self, states: Sequence[PartitionState]) -> Iterator[GaugeMetricFamily]:
        counts: Counts[str] = Counts()
        ages: dict[str, float] = {}
        for state in states:
            counts.update(state.pending_by_group)
            for group, age_s in state.oldest_age_by_group.items():
                ages[group] = max(age_s, ages.get(group, 0.0))
        first = self._with_a_line(counts)
        yield _by_group("halfhitch_pending_transactions", _summed(counts, first))
        old = {} if not ages else _longest(ages, self._with_a_line(ages))
        yield _by_group("halfhitch_group_oldest_undecided_age_seconds", old)
        if self.reach is None:
            return
        links = Counts(self.reach.links())
        unasked: Counts[str] = Counts()
        for group, count in counts.items():
            is_reached = links[group] > 0 or self.reach.is_elsewhere(group)
            unasked[group] = 0 if is_reached else count
        yield _by_group("halfhitch_unreachable_transactions", _summed(unasked, first))
        links.update(dict.fromkeys(first, 0))
        connected = _summed(links, {*first, *self._with_a_line(links)})
        yield _by_group("halfhitch_connected_producers", connected)

    def _with_a_line(self, values: Mapping[str, float]) -> set[str]:
        """The groups with most; of those that never had a line, as many as there is room for."""
        found: set[str] = set()
        for group in sorted(values, key=lambda group: values[group], reverse=True)[:GROUPS_MAX]:
            if group in self._named or len(self._named) < GROUPS_NAMED_MAX:
                self._named.add(group)
                found.add(group)
        return found


def _summed(counts: Mapping[str, int], named: Collection[str]) -> dict[str, float]:
    """Those with a line, and the rest as one."""
    found = {group: float(count) for group, count in counts.items() if group in named}
    rest = sum(count for group, count in counts.items() if group not in named)
    if rest:
        found[OTHER] = found.get(OTHER, 0.0) + rest
    return found


def _longest(ages: Mapping[str, float], named: Collection[str]) -> dict[str, float]:
    found = {group: age_s for group, age_s in ages.items() if group in named}
    rest = [age_s for group, age_s in ages.items() if group not in named]
    if rest:
        found[OTHER] = max(found.get(OTHER, 0.0), *rest)
    return found


def _by_group(name: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = _empty_family(name)
    for group, value in values.items():
        family.add_metric([shown(group)], value)
    return family


def _empty_family(name: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, METRICS[name].help, labels=METRICS[name].labels)
