"""When a half partition is full, a group or a target that is away has too much in it, or its owner
is too far behind.

Pure. A bound that was reached counts as reached until its number has gone well below it: else
prepares would be refused and taken in turn, many times a second.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from halfhitch.wire.burden import TEAM, Burden, Over

#: Of a bound on transactions; they go in thousands.
_EASED: Final = 0.9
#: Of the bound on lag: an owner that has caught up so far will not be behind again at once.
_EASED_LAG: Final = 0.5
#: Of the bound on lag: from here on prepares wait before they are stored.
_SLOWED_FROM: Final = 0.25
#: A prepare waits no longer than this, short of the bound. A caller that waits for its answers is
#: slowed by it to four a second, and its deadline (3 s of RocketMQ's clients) is far away.
PAUSE_S_MAX: Final = 0.25

NONE: Final = Burden()


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeLimits:
    """Of each half partition; see config/settings.py for what they mean to an operator."""

    undecided_max: int
    undecided_group_max: int
    lag_s_max: float

    @property
    def undecided_team_max(self) -> int:
        """Of one identity: half of all, and what one group of it may have in any case."""
        return max(self.undecided_max // 2, self.undecided_group_max)


def judge(
    limits: IntakeLimits,
    before: Burden,
    *,
    undecided_count: int,
    undecided_by_group: Mapping[str, int],
    lag_s: float,
    waiting_count: int = 0,
    waiting_by_topic: Mapping[str, int] | None = None,
    team_of: Callable[[str], str | None] = lambda _: None,
) -> Burden:
    """Which bounds are reached, after it was `before`.

    `waiting`: decided, for targets that are away. They take as much memory as the undecided, and
    nothing but the target ends them; so a target may have as many of them as a group undecided.

    `team_of`: whose group it is, where callers are told apart. Their groups count together: a
    pattern has as many as its holder likes.
    """
    count = undecided_count + waiting_count
    whole = _over(count, limits.undecided_max, _EASED, was=before.undecided)
    lag = _over(lag_s, limits.lag_s_max, _EASED_LAG, was=before.lag_s)
    bound, team_bound = limits.undecided_group_max, limits.undecided_team_max
    groups: dict[str, Over] = {}
    # None can have more than all have: most of the time there is nothing to look through.
    if undecided_count >= bound * _EASED:
        groups |= _each_over(undecided_by_group, bound, before)
    if undecided_count >= team_bound * _EASED:
        groups |= _each_over(_by_team(undecided_by_group, team_of), team_bound, before)
    topics: dict[str, Over] = {}
    for topic, waiting in (waiting_by_topic or {}).items():
        was = before.topics.get(topic) if before.undecided is None else None
        over = _over(waiting, bound, _EASED, was=was)
        if over is None and whole is not None and waiting:
            over = Over(waiting, bound)  # it is among those who fill it
        if over is not None:
            topics[topic] = over
    if whole is None and lag is None and not groups and not topics:
        return NONE
    return Burden(whole, lag, groups, topics)


def pause_s(limits: IntakeLimits, lag_s: float) -> float:
    """How long a prepare waits before it is stored: the more, the further the owner is behind.

    Who waits for an answer before it sends more is slowed until the owner keeps up, and is never
    refused. A refusal costs the caller its transaction: RocketMQ's producers try three times.
    """
    first_s = limits.lag_s_max * _SLOWED_FROM
    if lag_s <= first_s:
        return 0.0
    return PAUSE_S_MAX * min(1.0, (lag_s - first_s) / (limits.lag_s_max - first_s))


def _by_team(by_group: Mapping[str, int], team_of: Callable[[str], str | None]) -> Counter[str]:
    found: Counter[str] = Counter()
    for group, count in by_group.items():
        team = team_of(group)
        if team is not None:
            found[TEAM + team] += count
    return found


def _each_over(counts: Mapping[str, int], bound: int, before: Burden) -> dict[str, Over]:
    found: dict[str, Over] = {}
    for name, count in counts.items():
        over = _over(count, bound, _EASED, was=before.groups.get(name))
        if over is not None:
            found[name] = over
    return found


def _over(value: float, bound: float, eased: float, *, was: Over | None) -> Over | None:
    reached = value >= (bound if was is None else bound * eased)
    return Over(round(value), round(bound)) if reached else None
