"""Whether a new transaction is taken: the bounds of its half partition, wherever that is owned.

The owners' ledgers know what is undecided. What they know is looked at four times a second for the
partitions that are owned here, and told to the other instances while a bound is reached
(`IntakeWatch`); so every instance refuses for every partition. Only what is new is refused: an end,
an answer to a check and a message more of a pending transaction are what makes room, or belong to
what was taken. What is decided and waits for a target that is away counts, too: nothing but the
target makes room then.

An owner that falls behind is met by pauses before it is met by refusals: a prepare waits before it
is stored (`pause_s`), at the instance that owns its partition.

Used on the event loop.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from halfhitch.errors import OwnerLags, TooManyUndecided, TooManyWaiting
from halfhitch.service.api import PartitionPhase, PartitionState
from halfhitch.service.transactions.bounds import NONE, IntakeLimits, judge, pause_s
from halfhitch.wire.burden import TEAM, Burden, Over

logger = logging.getLogger(__name__)

#: For callers: decisions, and checks that bring them, come within seconds if they come at all.
_UNDECIDED_RETRY_S: Final = 5
_LAG_RETRY_S: Final = 2


class Intake:
    """See the module's text."""

    def __init__(self, limits: IntakeLimits) -> None:
        self._limits = limits
        #: Whose group it is; None where callers are not told apart.
        self.team_of: Callable[[str], str | None] = lambda _: None
        #: Of partitions that are owned here, while some bound of theirs is reached.
        self.own: dict[int, Burden] = {}
        #: Of all partitions.
        self._burdens: dict[int, Burden] = {}
        #: Of partitions that are owned here and behind: how long a prepare waits there.
        self._pauses_s: dict[int, float] = {}
        #: Half partitions that take nothing new of anybody.
        self.full: frozenset[int] = frozenset()

    # -- what is asked of it ---------------------------------------------------------------------

    def admit(self, partition: int, producer_group: str, topics: Iterable[str] = ()) -> None:
        """For messages to these topics. Raises TooManyUndecided, TooManyWaiting, OwnerLags."""
        if not self._burdens:
            return
        burden = self._burdens.get(partition)
        if burden is None:
            return
        over = burden.groups.get(producer_group)
        if over is not None:
            raise TooManyUndecided(
                f"group {producer_group} has {over.value} undecided transactions in half partition "
                f"{partition}, and {over.bound} are allowed (limits.undecided_group_max): end "
                "them, or answer their checks; new ones are taken again then",
                retry_after_s=_UNDECIDED_RETRY_S,
            )
        self._refuse_team(partition, burden, producer_group)
        _refuse_waiting(partition, burden, topics)
        if burden.undecided is not None:
            kind = TooManyWaiting if burden.topics else TooManyUndecided
            raise kind(
                f"half partition {partition} has {burden.undecided.value} undecided transactions "
                f"of all groups{_among(burden)}, and {burden.undecided.bound} are allowed "
                f"(limits.undecided_max), so no new one of group {producer_group} is taken; "
                "try again in a moment",
                retry_after_s=_UNDECIDED_RETRY_S,
            )
        if burden.lag_s is not None:
            raise OwnerLags(
                f"the owner of half partition {partition} is {burden.lag_s.value} s behind, and "
                f"{burden.lag_s.bound} s are allowed (limits.lag_s_max), so no new transaction of "
                f"group {producer_group} is taken; try again in a moment",
                retry_after_s=_LAG_RETRY_S,
            )

    def pause_s(self, partition: int) -> float:
        """How long a prepare is to wait before it is stored; 0 nearly always."""
        return self._pauses_s.get(partition, 0.0) if self._pauses_s else 0.0

    def _refuse_team(self, partition: int, burden: Burden, producer_group: str) -> None:
        team = self.team_of(producer_group) if burden.groups else None
        over = None if team is None else burden.groups.get(TEAM + team)
        if over is not None:
            raise TooManyUndecided(
                f"identity {team!r} has {over.value} undecided transactions in half partition "
                f"{partition}, of all its groups together, and {over.bound} are allowed (half of "
                f"limits.undecided_max), so no new one of group {producer_group} is taken: end "
                "them, or answer their checks",
                retry_after_s=_UNDECIDED_RETRY_S,
            )

    def is_free(self, producer_group: str, topic: str) -> bool:
        """Whether nothing of the group for this topic is refused or slowed anywhere."""
        if self._pauses_s:
            return False
        if not self._burdens:
            return True
        if self.full:
            return False
        team = self.team_of(producer_group)
        named = {producer_group} if team is None else {producer_group, TEAM + team}
        return not any(
            topic in burden.topics or not named.isdisjoint(burden.groups)
            for burden in self._burdens.values()
        )

    def closed_to(self, topics: Iterable[str]) -> Collection[int]:
        """Half partitions that take nothing new for these topics."""
        if not self._burdens:
            return self.full
        closed = set(self.full)
        for topic in topics:
            closed.update(p for p, burden in self._burdens.items() if topic in burden.topics)
        return closed

    def troubles(self) -> list[str]:
        """Which bounds are reached: a sentence for each, for people."""
        found: list[str] = []
        for partition, burden in sorted(self._burdens.items()):
            found += _sentences(partition, burden)
        return found

    # -- what it is told -------------------------------------------------------------------------

    def look(self, states: Iterable[PartitionState], heard: Mapping[int, Burden]) -> None:
        """How the partitions are that are owned here, and what is heard of the others.

        One that is being taken over, again, is not counted yet: what was said of it stands.
        """
        own: dict[int, Burden] = {}
        here = set()
        pauses_s: dict[int, float] = {}
        for state in states:
            before = self.own.get(state.partition, NONE)
            here.add(state.partition)
            burden = before
            if state.phase is PartitionPhase.WORKING:
                burden = judge(
                    self._limits,
                    before,
                    undecided_count=state.pending_count,
                    undecided_by_group=state.pending_by_group,
                    lag_s=state.lag_s,
                    waiting_count=state.waiting_count,
                    waiting_by_topic=state.waiting_by_topic,
                    team_of=self.team_of,
                )
                pause = pause_s(self._limits, state.lag_s)
                if pause:
                    pauses_s[state.partition] = pause
            if burden:
                own[state.partition] = burden
            _tell(state.partition, before, burden)
        self.own, self._pauses_s = own, pauses_s
        others = {p: burden for p, burden in heard.items() if burden and p not in here}
        self._burdens = {**others, **own}
        self.full = frozenset(p for p, burden in self._burdens.items() if burden.is_whole)


def _refuse_waiting(partition: int, burden: Burden, topics: Iterable[str]) -> None:
    if burden.undecided is not None or not burden.topics:
        return
    for topic in topics:
        over = burden.topics.get(topic)
        if over is not None:
            raise TooManyWaiting(
                f"{over.value} decided transactions wait for topic {topic} in half partition "
                f"{partition}, which takes no messages, and {over.bound} are allowed "
                "(limits.undecided_group_max): new ones with a message for it are taken again "
                "when it is back",
                retry_after_s=_UNDECIDED_RETRY_S,
            )


def _among(burden: Burden) -> str:
    waits = [f"{over.value} for {topic}" for topic, over in sorted(burden.topics.items())]
    return f" or decided and waiting for a topic that is away ({', '.join(waits)})" if waits else ""


def _sentences(partition: int, burden: Burden) -> list[str]:
    found = [
        f"half partition {partition} takes no new transactions of "
        + (
            f"identity {group.removeprefix(TEAM)}: {_of(over)} of all its groups together are "
            "undecided (half of limits.undecided_max)"
            if group.startswith(TEAM)
            else f"group {group}: {_of(over)} of that group are undecided "
            "(limits.undecided_group_max)"
        )
        for group, over in sorted(burden.groups.items())
    ]
    if burden.undecided is not None:
        found.append(
            f"half partition {partition} takes no new transactions: {_of(burden.undecided)} are "
            f"undecided{_among(burden)} (limits.undecided_max)"
        )
    else:
        found += [
            f"half partition {partition} takes no new transactions for topic {topic}: {_of(over)} "
            "are decided and wait for it (limits.undecided_group_max)"
            for topic, over in sorted(burden.topics.items())
        ]
    if burden.lag_s is not None:
        found.append(
            f"half partition {partition} takes no new transactions: its owner is "
            f"{burden.lag_s.value} s behind (limits.lag_s_max: {burden.lag_s.bound} s)"
        )
    return found


def _of(over: Over) -> str:
    return f"{over.value} (at most {over.bound})"


def _tell(partition: int, before: Burden, now: Burden) -> None:
    """Of the first bound that is reached, and when none is any more."""
    if now and not before:
        for sentence in _sentences(partition, now):
            logger.warning("%s", sentence, extra={"action": "intake_refused"})
    elif before and not now:
        logger.info(
            "half partition %d takes new transactions of all groups again",
            partition,
            extra={"action": "intake_open"},
        )
