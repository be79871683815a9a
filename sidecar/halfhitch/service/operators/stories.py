"""The story of a transaction, for people: what the audit topic tells, and what is so now.

What has ended is told by the audit topic alone. What is pending is known to its owner (or Redis),
what is parked lies on the parked topic; what the audit topic tells of their way so far stands
before that. Nothing is read twice into one story: events are those that were told, in their order.
Where messages lie on their topics is looked for when it is asked (landings.py).
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from halfhitch.core.model import GIVEN_UP, PARKED, ROLLED_BACK, ResolutionSource
from halfhitch.service.api import Filter, Operations, ParkedTransaction, Undecided
from halfhitch.service.operators.landings import Landing, TargetLogs, Wanted, landed
from halfhitch.wire import story
from halfhitch.wire.story import Ended, Entry, Event, Target

#: Transactions that one key may lead to at once.
_BY_KEY_MAX: Final = 100

_STATES: Final = {ROLLED_BACK: "rolled_back", PARKED: "parked", GIVEN_UP: "parked"}
_OUTCOMES: Final = {ROLLED_BACK: "rollback", GIVEN_UP: "given_up"}
_WHAT: Final = {ROLLED_BACK: "dropped", PARKED: "parked", GIVEN_UP: "parked"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is looked for in the audit topic."""

    marks: Sequence[bytes] = ()
    needles: Sequence[bytes] = ()  # one of them is in the value of each record that is meant
    accepts: Callable[[Entry], bool]
    since_ms: int = 0
    count_max: int = 1_000
    #: What is looked for instead, once this was found; None: nothing.
    then: Callable[[Sequence["Told"]], "Search | None"] | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """One entry, and which record has it."""

    partition: int
    log_offset: int
    written_ms: int
    instance: str
    entry: Entry


@dataclass(slots=True)
class Found:
    """`kept_since_ms`: of the oldest record that there is; None: there are none at all."""

    told: list[Told]
    kept_since_ms: int | None
    hidden_count: int = 0  # records behind an open Kafka transaction
    unknown_count: int = 0  # of releases newer than this one
    is_cut: bool = False  # there are more


class StoryLog(Protocol):
    """The audit topic. Raises KafkaUnavailable."""

    async def find(self, search: Search) -> Found:
        """All entries that are accepted, by way of the marks."""
        ...

    async def latest(self, search: Search) -> Found:
        """Those that were told last, newest first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryEvent:
    """One line of a story; what does not apply is None."""

    at_ms: int
    what: str
    by: str | None = None
    outcome: str | None = None
    reason: str | None = None
    number: int | None = None
    took_ms: int | None = None
    targets: Sequence[Target] = ()
    #: Where the forwarded messages lie, if that was asked for; and why not all of them are known.
    landed: Sequence[Landing] | None = None
    landed_trouble: str | None = None


@dataclass(slots=True, kw_only=True)
class TransactionStory:
    """All that is known of one transaction, oldest first."""

    transaction_id: str
    producer_group: str
    state: str  # pending, committed, rolled_back, parked
    partition: int | None
    ended_ms: int | None = None
    decided_by: str | None = None
    reason: str | None = None
    message_count: int = 0
    check_count: int = 0
    topics: tuple[str, ...] = ()
    events: list[StoryEvent] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class StoriesPage:
    """What was found, and how far was looked."""

    stories: list[TransactionStory]
    kept_since_ms: int | None = None
    hidden_count: int = 0
    unknown_count: int = 0
    is_cut: bool = False
    #: Why nothing, or not everything, is kept.
    trouble: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryQuery:
    """By id, by key with its topic, or all that have ended since."""

    transaction_id: str | None = None
    producer_group: str | None = None
    topic: str | None = None
    key: bytes | None = None
    since_s: float = 0.0
    count_max: int = 100
    may_see: Callable[[str], bool] | None = None
    #: Whether forwarded messages are looked for on their topics.
    with_offsets: bool = False
    #: Of which groups their contents are shown; None: of none.
    may_read: Callable[[str], bool] | None = None

    def takes(self, entry: Entry) -> bool:
        """Whether an entry is of a transaction that is asked for, and may be seen."""
        group = entry.producer_group
        if self.producer_group not in (None, group):
            return False
        if self.transaction_id not in (None, entry.transaction_id):
            return False
        return self.may_see is None or self.may_see(group)


class StoriesService:
    """Every door for operators calls it. `trouble`: why nothing is kept, if so."""

    def __init__(
        self,
        log: StoryLog,
        operations: Operations,
        targets: TargetLogs,
        trouble: Callable[[], str | None],
        wall_ms: Callable[[], int],
    ) -> None:
        self._log = log
        self._targets = targets
        self._wall_ms = wall_ms
        self._operations = operations
        self._trouble = trouble

    async def stories(self, query: StoryQuery) -> StoriesPage:
        """What is known of these transactions. Raises KafkaUnavailable."""
        page = await self._told(query)
        if query.with_offsets:
            await self._land(page.stories, query.may_read)
        return page

    async def _told(self, query: StoryQuery) -> StoriesPage:
        if query.transaction_id is not None:
            return await self._by_id(query, query.transaction_id)
        if query.key is not None and query.topic is not None:
            return await self._by_key(query, query.topic, query.key)
        found = await self._log.latest(
            Search(
                accepts=lambda entry: _is_ended(entry, query),
                since_ms=max(1, self._wall_ms() - int(query.since_s * 1000)),
                count_max=query.count_max,
            )
        )
        return self._page(found, _assembled(found.told))

    async def _by_id(self, query: StoryQuery, transaction_id: str) -> StoriesPage:
        search = Search(
            marks=[story.mark_of(transaction_id)],
            needles=[story.needle(transaction_id)],
            accepts=query.takes,
        )
        if not transaction_id:  # what is no transaction's
            found = await self._log.find(search)
            return self._page(found, _assembled(found.told))
        wanted = Filter(
            producer_group=query.producer_group,
            transaction_id=transaction_id,
            count_max=_BY_KEY_MAX,
            may_see=query.may_see,
        )
        found, undecided = await asyncio.gather(
            self._log.find(search), self._operations.undecided(wanted)
        )
        stories = _assembled(found.told)
        by_group = {each.producer_group: each for each in stories}
        for pending in undecided.transactions:
            told = _one(by_group, stories, pending, pending.partition)
            _is_pending(told, pending, self._wall_ms())
        if not stories or any(each.state != "committed" for each in stories):
            parked = await self._operations.parked(wanted)
            for kept in parked.transactions:
                _is_parked(_one(by_group, stories, kept, kept.half_partition), kept)
        return self._page(found, stories)

    async def _by_key(self, query: StoryQuery, topic: str, key: bytes) -> StoriesPage:
        hashed = story.key_hash(topic.encode(), key)
        identities: set[tuple[str, str]] = set()
        chosen: set[tuple[str, str]] = set()

        def their_stories(told: Sequence[Told]) -> Search | None:
            newest = sorted(told, key=lambda each: -each.written_ms)
            identities.update(map(_identity, newest))
            chosen.update(map(_identity, newest[: query.count_max]))
            if not chosen:
                return None
            return Search(
                marks=[story.mark_of(transaction_id) for _, transaction_id in chosen],
                needles=[story.needle(transaction_id) for _, transaction_id in chosen],
                accepts=lambda e: (e.producer_group, e.transaction_id) in chosen,
            )

        found = await self._log.find(
            Search(
                marks=[story.mark_of_key(hashed)],
                needles=[b"%d" % hashed],
                accepts=lambda entry: query.takes(entry) and _has_key(entry, topic, hashed),
                then=their_stories,
            )
        )
        found.is_cut = len(identities) > len(chosen)
        return self._page(found, _assembled(found.told))

    async def _land(
        self, stories: Sequence[TransactionStory], may_read: Callable[[str], bool] | None
    ) -> None:
        """Put where the messages lie into the lines that tell of their forwarding."""
        lines = [
            (of, place)
            for of in stories
            for place, event in enumerate(of.events)
            if event.what == "forwarded"
        ]
        wanted = [
            Wanted(
                producer_group=of.producer_group,
                transaction_id=of.transaction_id,
                message_count=of.events[place].number or 0,
                forwarded_ms=of.events[place].at_ms,
                places=frozenset((t.topic, t.partition) for t in of.events[place].targets),
                shows_content=may_read is not None and may_read(of.producer_group),
            )
            for of, place in lines
        ]
        for (of, place), found in zip(lines, await landed(self._targets, wanted), strict=True):
            of.events[place] = replace(
                of.events[place], landed=found.messages, landed_trouble=found.trouble
            )

    def _page(self, found: Found, stories: list[TransactionStory]) -> StoriesPage:
        return StoriesPage(
            stories=stories,
            kept_since_ms=found.kept_since_ms,
            hidden_count=found.hidden_count,
            unknown_count=found.unknown_count,
            is_cut=found.is_cut,
            trouble=self._trouble(),
        )


def _identity(told: Told) -> tuple[str, str]:
    return told.entry.producer_group, told.entry.transaction_id


def _is_ended(entry: Entry, query: StoryQuery) -> bool:
    if not isinstance(entry, Ended) or not query.takes(entry):
        return False
    return query.topic is None or any(target.topic == query.topic for target in entry.targets)


def _has_key(entry: Entry, topic: str, hashed: int) -> bool:
    if not isinstance(entry, Ended):
        return False
    return any(t.key_hash == hashed and t.topic == topic for t in entry.targets)


def _assembled(told: Sequence[Told]) -> list[TransactionStory]:
    """A story for each transaction, in the order in which they come."""
    stories: dict[tuple[str, str], TransactionStory] = {}
    for each in told:
        entry = each.entry
        identity = entry.producer_group, entry.transaction_id
        found = stories.get(identity)
        if found is None:
            found = stories[identity] = TransactionStory(
                transaction_id=identity[1],
                producer_group=identity[0],
                state="pending",
                partition=each.partition,
            )
        if isinstance(entry, Ended):
            _has_ended(found, entry, each)
        else:
            found.events.append(_event(entry))
            if entry.what == story.ASKED:
                found.check_count = max(found.check_count, entry.number)
    for found in stories.values():
        found.events = _in_order(found.events)
    return list(stories.values())


#: Of the same millisecond; what is not named here came after all that is.
_ORDER: Final = ("prepared", story.ASKED, "decided", "forwarded", "dropped", "parked")


def _in_order(events: Sequence[StoryEvent]) -> list[StoryEvent]:
    """By time; those of one millisecond as they follow from one another.

    Their records lie in the order in which several instances wrote them. Where a second life began
    they stay in it: by their names, what ended the first could not be told from what came of it.
    An answer that decided stands before its decision: the owner hears of it when that is stored.
    """
    again_ms = {event.at_ms for event in events if event.what == "lives_again"}
    decided = [e for e in events if e.what == "decided" and e.by == ResolutionSource.CHECK]

    def place(event: StoryEvent) -> tuple[int, int, int]:
        if event.at_ms in again_ms:
            return event.at_ms, 0, 0
        is_answer = event.what == story.ANSWERED
        led_to = [e.at_ms for e in decided if is_answer and _has_led_to(event, e)]
        what = story.ASKED if is_answer else event.what
        step = _ORDER.index(what) if what in _ORDER else len(_ORDER)
        check = 2 * (event.number or 0) + is_answer if what == story.ASKED else 0
        return min([event.at_ms, *led_to]), step, check

    return sorted(events, key=place)


def _has_led_to(answer: StoryEvent, decision: StoryEvent) -> bool:
    """It says the same, to a question that was asked before it was decided."""
    asked_ms = answer.at_ms - (answer.took_ms or 0)
    return answer.outcome == decision.outcome and asked_ms <= decision.at_ms


def _event(entry: Event) -> StoryEvent:
    return StoryEvent(
        at_ms=entry.at_ms,
        what=entry.what,
        by=entry.by,
        outcome=entry.outcome,
        reason=entry.reason,
        number=entry.number,
        took_ms=entry.took_ms,
    )


def _has_ended(found: TransactionStory, entry: Ended, told: Told) -> None:
    if found.ended_ms is None or found.ended_ms <= told.written_ms:
        found.state = _STATES.get(entry.ending, "committed")
        found.ended_ms = told.written_ms
        if entry.source is not None or entry.ending <= 0 or not _is_committed(found):
            found.decided_by, found.reason = entry.source, entry.reason
        found.message_count, found.check_count = entry.message_count, entry.check_count
        found.topics = tuple(dict.fromkeys(target.topic for target in entry.targets))
    if entry.ending == PARKED and found.state == "committed" and found.decided_by is None:
        # Put back, it was forwarded by the decision of its first life.
        found.decided_by, found.reason = entry.source, entry.reason
    life = None if not entry.life else entry.life
    prepared_ms = entry.born_ms if entry.born_ms >= 0 and not entry.life else entry.stored_ms
    found.events += [
        StoryEvent(
            at_ms=prepared_ms,
            what="lives_again" if entry.life else "prepared",
            by=entry.taken_by or None,
            number=life,
            targets=entry.targets,
        ),
        StoryEvent(
            at_ms=entry.decided_ms or told.written_ms,
            what="decided",
            by=entry.source,
            outcome=_OUTCOMES.get(entry.ending, "commit"),
            reason=entry.reason,
            number=entry.op_offset,
        ),
        StoryEvent(
            at_ms=told.written_ms,
            what=_WHAT.get(entry.ending, "forwarded"),
            by=told.instance,
            reason=entry.why,
            number=entry.message_count,
            targets=entry.targets if entry.ending > 0 else (),
        ),
    ]


def _is_committed(found: TransactionStory) -> bool:
    """By a decision that was told, and that counts for a later life too."""
    return any(e.outcome == "commit" and e.by == found.decided_by for e in found.events)


def _one(
    by_group: dict[str, TransactionStory],
    stories: list[TransactionStory],
    known: Undecided | ParkedTransaction,
    partition: int,
) -> TransactionStory:
    found = by_group.get(known.producer_group)
    if found is None:
        found = by_group[known.producer_group] = TransactionStory(
            transaction_id=known.transaction_id,
            producer_group=known.producer_group,
            state="pending",
            partition=partition,
        )
        stories.append(found)
    return found


def _is_pending(found: TransactionStory, pending: Undecided, now_ms: int) -> None:
    """What its owner, or Redis, knows of it, where that was not told."""
    found.state, found.topics = "pending", pending.topics
    found.message_count, found.check_count = pending.message_count, pending.check_count
    if not any(event.what in ("prepared", "lives_again") for event in found.events):
        prepared_ms = now_ms - int(pending.age_s * 1000)
        targets = [Target(topic) for topic in pending.topics]
        found.events.insert(0, StoryEvent(at_ms=prepared_ms, what="prepared", targets=targets))
    is_told = any(
        event.what == story.ANSWERED and event.number == pending.check_count
        for event in found.events
    )
    if pending.last_answer is not None and not is_told:
        found.events.append(
            StoryEvent(
                at_ms=now_ms,
                what="last_answer",
                by=pending.asked,
                outcome=pending.last_answer,
                reason=pending.last_reason,
                number=pending.check_count,
            )
        )


def _is_parked(found: TransactionStory, parked: ParkedTransaction) -> None:
    """What the parked topic says, where that was not told."""
    if found.state == "pending":
        found.state = "parked"
    found.topics, found.message_count = parked.topics, parked.message_count
    if any(event.what == "parked" for event in found.events):
        return
    found.events.append(
        StoryEvent(
            at_ms=parked.parked_ms, what="parked", reason=f"{parked.reason}: {parked.detail}"
        )
    )
