"""Which targets are away, and who has to wait for them.

A target is away from the moment a Kafka transaction could not be written because of it. Then, for
each topic, there is a pause (1 s, doubled with each failure, up to 30 s, with jitter), after it a
probe of a few transactions alone, and so on until Kafka takes them.

Who waits:
- every transaction that has a message for a topic that is away, with all its messages;
- behind it, whoever has a message with the same topic and key as one of its messages, although that
  topic is there: messages of one key keep their order.
Everything else goes on. `_waiting` is in the order in which they became ready, which is that in
which they were first looked at; who is probed stays in it until Kafka has taken him, so a probe
that fails changes no order.

Pure: time and dice are arguments, transactions are opaque. Bounded by what is decided and undone.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from halfhitch.core.transaction import Transaction

PAUSE_S: Final = 1.0
PAUSE_MAX_S: Final = 30.0
#: Where nobody can say which target it was, and it may have been none of them.
GUESS_PAUSE_MAX_S: Final = 5.0
#: Of a pause, at most, in both directions together.
_JITTER: Final = 0.4
PROBE_MESSAGES_MAX: Final = 10
#: A topic for which nobody waits any more is forgotten so long after its pause.
_FORGET_S: Final = 60.0

#: Topic and key of one message; no key, no order.
TopicAndKey = tuple[str, bytes | None]
#: Of a waiting transaction: its topics, and topic and key (as a hash) of each keyed message.
_Held = tuple[frozenset[str], tuple[tuple[str, int], ...]]


@dataclass(slots=True)
class Away:
    """One topic."""

    reason: str
    pause_s: float
    retry_s: float  # no probe before this
    is_guess: bool  # it was alone in a step that failed, and nothing said that it was the topic
    is_open: bool = False  # nobody waits for it: the next one that has a message for it is a probe


class AwayTargets:
    """Empty (and false) as long as all targets are there."""

    def __init__(self, dice: Callable[[], float] = lambda: 0.5) -> None:
        self._dice = dice
        self._away: dict[str, Away] = {}
        self._waiting: dict[Transaction, _Held] = {}
        self._keys: dict[tuple[str, int], list[int]] = {}  # of those that wait: whose, in order
        self._order: dict[Transaction, int] = {}  # of all that were looked at and have not ended
        self._looked_count = self._last_order = 0
        self._is_sorted = True
        self._by_topic: dict[str, int] = {}  # of those that wait: how many have a message for it
        self._topic_sets: dict[frozenset[str], frozenset[str]] = {}  # each is in memory once
        self._probes: dict[Transaction, None] = {}

    def __bool__(self) -> bool:
        return bool(self._away) or bool(self._order)

    # -- what became of steps --------------------------------------------------------------------

    def failed(
        self, topics: Iterable[str], now_s: float, reason: str, *, is_guess: bool = False
    ) -> list[str]:
        """Because of these a step could not be written; gives those that were there until now."""
        self._probes.clear()
        news = []
        for topic in sorted(topics):
            away = self._away.get(topic)
            if away is None:
                away = self._away[topic] = Away(reason, PAUSE_S, 0.0, is_guess)
                news.append(topic)
            else:
                away.reason, away.is_open = reason, False
                away.is_guess = away.is_guess and is_guess  # what was known once stays known
                pause_max_s = GUESS_PAUSE_MAX_S if away.is_guess else PAUSE_MAX_S
                away.pause_s = min(away.pause_s * 2, pause_max_s)
            jitter = 1 + _JITTER * (self._dice() - 0.5)
            away.retry_s = now_s + away.pause_s * jitter
        return news

    def postpone(self, topics: Iterable[str], now_s: float) -> None:
        """They are still away, as everybody can see: no probe now, and a look again soon."""
        for topic in topics:
            self._away[topic].retry_s = now_s + PAUSE_S * (1 + _JITTER * (self._dice() - 0.5))

    def answered(self, topics: Collection[str], now_s: float) -> list[str]:
        """Kafka has taken messages for these, or refused them for good; gives those now back.

        Whatever a guess was about is over when one of them is: the others are tried at once.
        """
        back = sorted(self._away.keys() & set(topics))
        found = [self._away.pop(topic) for topic in back]
        if any(away.is_guess for away in found):
            for away in self._away.values():
                if away.is_guess:
                    away.retry_s = min(away.retry_s, now_s)
        return back

    def ended(self, transactions: Iterable[Transaction]) -> None:
        """Nothing more is to be done for these, whether or not they wait."""
        for transaction in transactions:
            self._probes.pop(transaction, None)
            if transaction in self._order:
                self._leave(transaction)
                del self._order[transaction]

    def aborted(self) -> None:
        """A step is not: its probes wait where they waited."""
        self._probes.clear()

    # -- who waits -------------------------------------------------------------------------------

    def holds(self, transaction: Transaction, named: Sequence[TopicAndKey]) -> bool:
        """Whether it has to wait; if so it is noted, in its place.

        Who was let pass before may have to wait now: his step was aborted, for his target is away.
        """
        if transaction in self._probes:
            return False
        order = self._order.get(transaction)
        if order is None:
            order = self._order[transaction] = self._looked_count = self._looked_count + 1
        topics = frozenset(topic for topic, _ in named)
        keys = tuple((topic, hash(key)) for topic, key in named if key is not None)
        is_held = self._is_away(topics) or any(
            key in self._keys and self._keys[key][0] < order for key in keys
        )
        if not is_held:
            self._leave(transaction)
        elif transaction not in self._waiting:
            self._enter(transaction, (self._topic_sets.setdefault(topics, topics), keys))
        return is_held

    def due(self, now_s: float) -> list[str]:
        """Topics whose pause is over."""
        due = []
        for topic, away in list(self._away.items()):
            if away.retry_s > now_s:
                continue
            if away.is_open and now_s - away.retry_s > _FORGET_S:
                del self._away[topic]
            elif not away.is_open:
                due.append(topic)
        return due

    def probe(self, topics: Collection[str], message_count_max: int) -> list[Transaction]:
        """The first ones that wait for no other topics than these; they are let through.

        A topic for which nobody waits is open again: whoever comes is the probe.
        """
        closed = {topic for topic, away in self._away.items() if not away.is_open} - set(topics)
        message_count_max = min(message_count_max, PROBE_MESSAGES_MAX)
        passed: set[tuple[str, int]] = set()
        messages = 0
        self._sort()
        for transaction, (its_topics, its_keys) in self._waiting.items():
            if messages >= message_count_max:
                break
            # Whoever is behind one that stays, by its key, stays too.
            if not its_topics.isdisjoint(closed) or not passed.isdisjoint(its_keys):
                passed.update(its_keys)
            else:
                self._probes[transaction] = None
                messages += transaction.message_count
        if not self._probes:
            for topic in topics:
                self._away[topic].is_open = True
        return list(self._probes)

    def in_order(self) -> list[Transaction]:
        """All that wait, in the order in which they became ready."""
        self._sort()
        return list(self._waiting)

    def released(self) -> list[Transaction]:
        """Who need not wait any more, in order; they wait no more."""
        self._sort()
        waiting, self._waiting = self._waiting, {}
        self._keys, self._by_topic, self._topic_sets = {}, {}, {}
        closed = {topic for topic, away in self._away.items() if not away.is_open}
        free = []
        for transaction, held in waiting.items():
            if held[0].isdisjoint(closed) and self._keys.keys().isdisjoint(held[1]):
                free.append(transaction)
            else:
                self._enter(transaction, held)
        return free

    @property
    def is_owing(self) -> bool:
        """Whether some need not wait (any more) and are not written yet.

        Until they are nobody may be probed or released: he would pass one of them with his key.
        """
        return len(self._order) > len(self._waiting)

    @property
    def probed(self) -> list[str]:
        """Topics that the probes under way are about; empty when there are none."""
        found = {topic for transaction in self._probes for topic in self._waiting[transaction][0]}
        return sorted(found & self._away.keys())

    def has_closed(self, topic: str) -> bool:
        """Whether nothing is to be written to it now."""
        return self._is_away((topic,))

    def _is_away(self, topics: Iterable[str]) -> bool:
        away = self._away
        return any(topic in away and not away[topic].is_open for topic in topics)

    def _sort(self) -> None:
        if not self._is_sorted:
            order = self._order
            self._waiting = dict(sorted(self._waiting.items(), key=lambda item: order[item[0]]))
            self._is_sorted = True

    def _enter(self, transaction: Transaction, held: _Held) -> None:
        order = self._order[transaction]
        self._is_sorted = self._is_sorted and (not self._waiting or order > self._last_order)
        self._last_order = order
        self._waiting[transaction] = held
        for topic in held[0]:
            self._by_topic[topic] = self._by_topic.get(topic, 0) + 1
        for key in held[1]:
            insort(self._keys.setdefault(key, []), order)

    def _leave(self, transaction: Transaction) -> None:
        order = self._order[transaction]
        topics, keys = self._waiting.pop(transaction, ((), ()))
        for topic in topics:
            self._by_topic[topic] -= 1
        for key in keys:
            orders = self._keys[key]
            del orders[bisect_left(orders, order)]
            if not orders:
                del self._keys[key]

    # -- for people ------------------------------------------------------------------------------

    @property
    def waiting_count(self) -> int:
        """All that wait."""
        return len(self._waiting)

    def waiting_by_topic(self) -> dict[str, int]:
        """How many wait that have a message for each topic that is away. From any thread."""
        return {topic: self._by_topic.get(topic, 0) for topic in list(self._away)}

    def reason(self, topic: str) -> str:
        """Why it is taken to be away."""
        away = self._away.get(topic)
        return "" if away is None else away.reason
