"""When undecided transactions are checked, and what follows from what became of the checks.

The life of a transaction that stays undecided:

    young    read less than a second ago: nearly all are decided now, and cost nothing here
    asleep   it has a time at which something is due: its next check, its renewal, its giving up
    waiting  its check is due; it waits in its group's queue for a permit (somebody to ask)
    asked    number n is in the log (`check_count`), and handed over; then asleep again

The number is written to the log first (the halves are re-appended with it), then delivered:
- n + 1 is written only when it is known that n was delivered (`is_delivered`),
- not known to be delivered, n is sent again, without writing or counting anything,
- given up is only who was delivered the last number, or is too old.
So no outage of producers burns numbers, and no crash makes more of them than allowed: what a crash
forgets is that n was delivered.

Times are milliseconds on the ledger's own scale: broker time at the end of the replay, then only
what has passed since. A broker or producer whose clock jumps changes nothing for those that are
pending (the scale is not read from later records). Giving up has its own rule: age_limit.py.
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from halfhitch.core.age_limit import AgeLimit
from halfhitch.core.check_rules import CheckRules
from halfhitch.core.model import Identity, ProducerGroup, Resolution, TimestampMs
from halfhitch.core.timers import Timers
from halfhitch.core.transaction import CopyOrder, State, Transaction
from halfhitch.core.waiting import Waiting

#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_AWAITING: Final = State.AWAITING
_PENDING: Final = State.PENDING

#: At most so many are moved on in one turn: a takeover may find a million of them.
_TURN_MAX: Final = 20_000
#: Deliveries of one number that got lost on the way; then it counts as delivered. A producer that
#: dies of the question would be asked for ever.
_LOST_MAX: Final = 3


class Checks:
    """The check-back of one ledger. `now_ms` is None until the replay is over."""

    def __init__(self, rules: CheckRules) -> None:
        self.rules = rules
        self.now_ms: int | None = None
        self._age_limit = AgeLimit(rules.age_ms_max)
        self._young: deque[Transaction] = deque()  # bounded by what a second brings
        self._timers = Timers()
        self._waiting = Waiting()
        self._last_due_ms = 0
        self.copies_max: int | None = None  # so many transactions of a step are appended anew
        # Bounded by what is undecided; the owner empties both, a part in each turn.
        self._renewals: deque[Transaction] = deque()
        self._given_up: deque[Transaction] = deque()
        self._lost: dict[Identity, int] = {}
        self.known_ms: int | None = None  # who was due by then may be asked; None: whoever is due
        self._asked: set[Identity] = set()  # a question is out; no more than there are permits
        #: Told of and undecided, by group; none with 0.
        self.told_by_group: dict[ProducerGroup, int] = {}
        #: Decided, and for a long time nothing has come of the messages that are missing.
        self.incomplete: list[Transaction] = []
        #: For the index: news of the undecided, and who was decided (by what answer, if by one).
        self.changed: list[Transaction] = []
        self.settled: list[tuple[Identity, Resolution | None]] = []

    # -- what happens to transactions ------------------------------------------------------------

    def begins(self, transaction: Transaction, stored_ms: int, immunity_ms: int) -> None:
        """Its first half was read."""
        now_ms = self.now_ms
        transaction.aged_from_ms = stored_ms if now_ms is None else now_ms
        transaction.due_ms = self._immunity_ms(immunity_ms)
        self._young.append(transaction)

    def _immunity_ms(self, asked_ms: int) -> int:
        return self.rules.immunity_ms if asked_ms < 0 else asked_ms

    def began_before(
        self, transaction: Transaction, stored_ms: TimestampMs, immunity_ms: int
    ) -> None:
        """A replay has found that its first half is another one, and older than it seemed."""
        transaction.stored_at_ms = stored_ms
        if transaction.check_count:
            transaction.due_ms += transaction.aged_from_ms - stored_ms
        elif not transaction.is_told:
            transaction.due_ms = self._immunity_ms(immunity_ms)
        transaction.aged_from_ms = stored_ms

    def found_copy(self, transaction: Transaction, check_count: int, stored_ms: int) -> None:
        """A replay has found it re-appended with this number; whether it was delivered it can't."""
        transaction.check_count = check_count
        transaction.is_delivered = False
        interval_ms = self.rules.interval_after_ms(transaction.identity, check_count)
        # On the scale of `aged_from_ms`, as a first due time is.
        transaction.due_ms = stored_ms + interval_ms - transaction.aged_from_ms

    def decided(self, transaction: Transaction, answer: Resolution | None = None) -> None:
        """No check any more; `answer`: what a producer that was checked has said."""
        if transaction.wake_ms >= 0:
            self._timers.drop(transaction)
        if transaction.is_told:
            self._waiting.leave(transaction)
            transaction.is_told = False
            self._asked.discard(transaction.identity)
            group = transaction.identity[0]
            count = self.told_by_group.pop(group) - 1
            if count:
                self.told_by_group[group] = count
            self.settled.append((transaction.identity, answer))
            self._lost.pop(transaction.identity, None)

    def awaits(self, transaction: Transaction) -> None:
        """Decided, but a half is missing: not for ever."""
        if self.now_ms is not None:
            self._timers.add(transaction, self.now_ms + self.rules.incomplete_ms)
        # Else it is among the young, and met there.

    def completed(self, transaction: Transaction) -> None:
        """The last missing half was read."""
        self._timers.drop(transaction)

    def copied(self, order: CopyOrder) -> None:
        """The copies are in the log."""
        transaction, rules = order.transaction, self.rules
        now_ms = self._now()
        if order.is_check:
            transaction.check_count = order.number
            transaction.is_delivered = False
            interval_ms = rules.interval_after_ms(transaction.identity, order.number)
            transaction.due_ms = now_ms + interval_ms
            self.changed.append(transaction)
            self._asked.add(transaction.identity)
            self._sleep(transaction, again_ms=max(interval_ms, rules.answer_ms))
        else:
            self._sleep(transaction)

    def copy_failed(self, order: CopyOrder) -> None:
        """They are not; the permit was given back."""
        if order.is_check:
            self._waiting.put(order.transaction, is_first=True)
        else:
            self._renewals.appendleft(order.transaction)
        self._sleep(order.transaction)

    def rest(self, transaction: Transaction, rest_ms: int) -> None:
        """Its copies are not taken: `copy_failed` put it back too soon."""
        self._waiting.leave(transaction)
        if self._renewals and self._renewals[0] is transaction:
            self._renewals.popleft()
        self._sleep(transaction, again_ms=rest_ms)

    def reported(
        self, transaction: Transaction, number: int, answer: str, by: str, *,
        is_counted: bool, is_lost: bool, since_ms: int = 0, reason: str | None = None,
    ) -> None:  # fmt: skip
        """What became of a delivery `since_ms` ago. Of an older number it says nothing any more."""
        if transaction.state is not _PENDING or number != transaction.check_count:
            return
        transaction.answer = (answer, by, reason)
        self._asked.discard(transaction.identity)
        self.changed.append(transaction)
        if is_lost:
            lost_count = self._lost.get(transaction.identity, 0) + 1
            self._lost[transaction.identity] = lost_count
            is_counted = lost_count >= _LOST_MAX
        if is_counted:
            self._lost.pop(transaction.identity, None)
            transaction.is_delivered = True
            # It may have been delivered late: by another way, after the first one was lost.
            interval_ms = self.rules.interval_after_ms(transaction.identity, number)
            transaction.due_ms = max(transaction.due_ms, self._now() - since_ms + interval_ms)
            self._waiting.leave(transaction)  # to be sent again: an earlier try had seemed lost
            self._sleep(transaction)
        elif not transaction.is_delivered and not transaction.is_waiting:
            again_ms = self.rules.again_ms * (10 if is_lost else 1)
            self._sleep(transaction, again_ms=again_ms)

    def hasten(self, transaction: Transaction) -> bool:
        """Somebody wants it checked now; False when it has had all its checks."""
        used_up = transaction.is_delivered and transaction.check_count >= self.rules.count_max
        if used_up or transaction.state is not _PENDING:
            return False
        if transaction.is_told and not transaction.is_waiting:
            transaction.due_ms = self._now()
            self._wait(transaction)
        return True

    def postpone(self, transaction: Transaction) -> None:
        """It is being given up; should the decision never arrive, that is done again."""
        self._timers.add(transaction, self._now() + max(10_000, self.rules.again_ms))

    # -- time ------------------------------------------------------------------------------------

    def tick(self, now_ms: int, calendar_ms: int | None = None) -> None:
        """Time has come to here, and by the calendar to there, where that is known."""
        self._age_limit.calendar_ms = calendar_ms
        if self.now_ms is None:
            self._age_limit.begin(now_ms)
            # What a broker or an earlier clock has dated into the future is as old as nothing.
            for transaction in self._young:
                transaction.aged_from_ms = min(transaction.aged_from_ms, now_ms)
        self.now_ms = now_ms
        self._grow_old(now_ms)
        for transaction in self._timers.due(now_ms, _TURN_MAX):
            if transaction.state is _AWAITING:
                self.incomplete.append(transaction)
            else:
                self._wake(transaction, now_ms)

    @property
    def is_behind(self) -> bool:
        """Some are young no more and were not told of: a turn takes only so many."""
        old_from_ms = -1 if self.now_ms is None else self.now_ms - self.rules.doubt_ms
        return bool(self._young) and self._young[0].aged_from_ms <= old_from_ms

    def _grow_old(self, now_ms: int) -> None:
        young = self._young
        pending, awaiting = _PENDING, _AWAITING
        old_from_ms = now_ms - self.rules.doubt_ms
        for _ in range(min(len(young), _TURN_MAX)):
            transaction = young[0]
            if transaction.aged_from_ms > old_from_ms:
                return
            young.popleft()
            state = transaction.state  # nearly all of them are finished
            if state is awaiting:
                self.awaits(transaction)
            elif state is pending:
                self._doubt(transaction, now_ms)

    def _doubt(self, transaction: Transaction, now_ms: int) -> None:
        """It is young no more: from now on it has a time at which something is due."""
        rules = self.rules
        longest_ms = max(transaction.due_ms, 0)
        if transaction.check_count:
            longest_ms = 2 * max(rules.interval_ms_max, rules.interval_ms)
        due_ms = transaction.aged_from_ms + transaction.due_ms
        due_ms = min(due_ms, now_ms + longest_ms)
        if due_ms == self._last_due_ms:
            due_ms = self._last_due_ms  # many are due together: one number in memory for them all
        transaction.due_ms = self._last_due_ms = due_ms
        transaction.is_told = True
        group = transaction.identity[0]
        self.told_by_group[group] = self.told_by_group.get(group, 0) + 1
        self.changed.append(transaction)
        again_ms = None if transaction.is_delivered else max(0, due_ms - now_ms)
        self._sleep(transaction, again_ms=again_ms)

    def _wake(self, transaction: Transaction, now_ms: int) -> None:
        if transaction.missing_count:  # its copies have not been read back yet
            self._timers.add(transaction, now_ms + self.rules.again_ms)
        elif self._age_limit.is_reached(transaction, now_ms):
            self._waiting.leave(transaction)
            self._given_up.append(transaction)
        elif not transaction.is_waiting and not transaction.is_delivered:
            transaction.due_ms = now_ms
            self._wait(transaction)
        elif transaction.is_waiting or now_ms < transaction.due_ms:
            self._renewals.append(transaction)
        elif transaction.is_delivered and transaction.check_count >= self.rules.count_max:
            self._given_up.append(transaction)
        else:
            self._wait(transaction)

    def _wait(self, transaction: Transaction) -> None:
        self._waiting.put(transaction)
        self._sleep(transaction)

    def _sleep(self, transaction: Transaction, *, again_ms: int | None = None) -> None:
        """Until the check is due (a waiting one has met that), the renewal, or the giving up.

        `again_ms`: it is asked; should nothing be heard of that, it is sent again after this.
        """
        now_ms, rules = self._now(), self.rules
        wake_ms = now_ms + rules.renew_ms
        if again_ms is not None:
            wake_ms = now_ms + again_ms
        elif not transaction.is_waiting:
            wake_ms = min(wake_ms, transaction.due_ms)
        wake_ms = min(wake_ms, self._age_limit.unasked_ms(transaction))
        self._timers.add(transaction, max(wake_ms, now_ms))

    def _now(self) -> int:
        return 0 if self.now_ms is None else self.now_ms

    # -- what is to be done ----------------------------------------------------------------------

    def demand(self) -> dict[ProducerGroup, int]:
        """How many of each group wait to be checked, or a few more."""
        return self._waiting.demand(self.known_ms)

    def again(self, rooms: dict[ProducerGroup, int]) -> list[Transaction]:
        """Whose number is to be delivered once more, with permits from `rooms`, used up there."""
        chosen = []
        for group, queue in list(self._waiting.again.items()):
            while rooms.get(group, 0) > 0:
                transaction = self._waiting.take(queue, self.known_ms)
                if transaction is None:
                    break
                if self._is_moved(transaction):
                    continue
                rooms[group] -= 1
                rules = self.rules
                number = transaction.check_count
                interval_ms = rules.interval_after_ms(transaction.identity, number)
                transaction.due_ms = self._now() + interval_ms
                self._sleep(transaction, again_ms=max(interval_ms, rules.answer_ms))
                self._asked.add(transaction.identity)
                chosen.append(transaction)
        return chosen

    def copies(self, rooms: dict[ProducerGroup, int]) -> Iterator[CopyOrder]:
        """Who is to be checked, a turn for each group, then who is to be renewed."""
        return islice(self._all_copies(rooms), self.copies_max)

    def _all_copies(self, rooms: dict[ProducerGroup, int]) -> Iterator[CopyOrder]:
        queues = {g: q for g, q in self._waiting.fresh.items() if q and rooms.get(g, 0) > 0}
        while queues:
            for group in list(queues):
                transaction = self._next_fresh(queues[group])
                if transaction is None:
                    del queues[group]
                    continue
                rooms[group] -= 1
                if rooms[group] <= 0:
                    del queues[group]
                yield CopyOrder(transaction, transaction.check_count + 1)
        while self._renewals:
            transaction = self._renewals.popleft()
            if transaction.state is _PENDING and not transaction.missing_count:
                yield CopyOrder(transaction, transaction.check_count)

    def _next_fresh(self, queue: deque[Transaction]) -> Transaction | None:
        while (transaction := self._waiting.take(queue, self.known_ms)) is not None:
            if self._is_moved(transaction):
                continue
            if transaction.is_delivered:
                return transaction
            self._waiting.put(transaction)
        return None

    def _is_moved(self, transaction: Transaction) -> bool:
        """It was renewed while it waited, and the copies are on their way back: a moment later."""
        if not transaction.missing_count:
            return False
        transaction.due_ms = self._now() + self.rules.again_ms
        self._sleep(transaction)
        return True

    def given_up(self, count_max: int) -> list[Transaction]:
        """Who is to be given up: no further check can or may be made."""
        chosen: list[Transaction] = []
        while self._given_up and len(chosen) < count_max:
            transaction = self._given_up.popleft()
            if transaction.state is _PENDING:
                if transaction.missing_count:
                    self._sleep(transaction)
                else:
                    chosen.append(transaction)
        return chosen

    def counts(self) -> tuple[int, int]:
        """How many wait for a permit (about), and of how many a question is out: for people."""
        return self._waiting.count, len(self._asked)

    @property
    def has_renewals(self) -> bool:
        """Whether something may have to be renewed."""
        return bool(self._renewals)

    @property
    def asleep_count(self) -> int:
        """Those with a time at which something is due."""
        return self._timers.live
