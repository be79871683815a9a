"""Applications: what they prepare, how their local transactions end, what they answer when asked.

Each transaction knows the truth about itself; the account (account.py) compares it with what became
visible. An app is honest unless it says otherwise: all its decisions say the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from halfhitch.core.model import (
    Identity,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TransactionId,
)
from halfhitch.wire import op as op_wire
from halfhitch.wire.digest import UNKNOWN, digest_of
from halfhitch.wire.half import HalfRecord, Headers, system_headers
from harness.simulation.cluster import HALF, OP, POISONED
from harness.simulation.strangers import fresh_dice

if TYPE_CHECKING:
    from harness.simulation.cluster import Cluster

COMMIT, ROLLBACK = Resolution.COMMIT, Resolution.ROLLBACK
_NEVER = 1 << 60


@dataclass
class Message:
    """As its producer gave it."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass
class Transaction:
    """The truth about one transaction."""

    identity: Identity
    messages: list[Message]
    immunity_s: int | None
    outcome: Resolution | None  # of the local transaction; None: nobody will ever know
    known_ms: int = 0  # since then the app can tell
    is_honest: bool = True
    seems_to_fail: bool = False  # its prepare: rolled back before its half arrives
    is_incomplete: bool = False  # its last message is never stored, though the end covers it
    unknown_answers: int = 0  # so many checks are answered with "cannot say yet"
    answers_twice: bool = False
    grows_slowly: bool = False  # its messages come in several requests
    grows_late: bool = False  # its last message is added when it has been given up
    reused: list[int] = field(default_factory=list)  # halves of other messages under its id
    waits: bool = False  # its check waits for the local transaction instead of saying "not yet"
    half_offsets: list[int] = field(default_factory=list)
    handles: list[tuple[int, ...]] = field(default_factory=list)  # offsets, as checks name them
    decided: list[tuple[Resolution, ResolutionSource]] = field(default_factory=list)
    given_up_ms: int | None = None

    @property
    def covered_count(self) -> int:
        """As the newest handle counts them."""
        return len(self.messages)


@dataclass
class Group:
    """The live producers of one group, and how they behave when they are asked."""

    name: ProducerGroup
    live_count: int = 1
    mood: str = "answers"  # or hangs, breaks (404, garbage), dies (of the question)


class Apps:
    """All of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._timeline = cluster.timeline
        self._dice = fresh_dice(cluster.timeline.dice)
        self._late_dice = fresh_dice(self._dice)  # as these came later: other lives stay the same
        self.transactions: dict[Identity, Transaction] = {}
        self.groups = {
            ProducerGroup(name): Group(ProducerGroup(name))
            for name in ("alpha", "beta", "gamma")[: cluster.plan.groups]
        }

    # -- before the first check -------------------------------------------------------------------

    def begin(self) -> None:
        """All transactions of this life, at their times."""
        plan, dice = self._cluster.plan, self._timeline.dice
        for number in range(plan.transaction_count):
            transaction = self._invent(number)
            self.transactions[transaction.identity] = transaction
            begin_ms = int(dice.random() ** 2 * plan.active_ms * 0.8)
            self._timeline.after(begin_ms, lambda t=transaction: self._live(t))

    def _invent(self, number: int) -> Transaction:
        dice = self._timeline.dice
        group = dice.choice(list(self.groups))
        messages = []
        for index in range(dice.choice([1, 1, 1, 2, 3])):
            topic = dice.choice(["orders", "orders", "stock"])
            if self._cluster.plan.poisoned_topic and dice.random() < 0.3:
                topic = POISONED
            value = dice.choice([None, b"", b"%d/%d" % (number, index), b"%d" % number * 50])
            headers: Headers = [("n", b"%d.%d" % (number, index))]
            messages.append(Message(topic, dice.choice([None, b"k"]), value, headers))
        name = TransactionId(f"t{number}")
        transaction = Transaction(
            (group, name),
            messages,
            immunity_s=dice.choice([None, None, None, 0, 2, 15, 60]),
            outcome=dice.choice([COMMIT, COMMIT, COMMIT, ROLLBACK, ROLLBACK, None]),
            is_honest=dice.random() < 0.85,
            is_incomplete=len(messages) > 1 and dice.random() < 0.1,
            unknown_answers=dice.choice([0, 0, 0, 1, 2]),
            answers_twice=dice.random() < 0.1,
        )
        if dice.random() < 0.06:
            transaction.seems_to_fail = transaction.is_honest = True
            transaction.outcome = ROLLBACK
        transaction.known_ms = self._timeline.now_ms
        if len(messages) > 1 and self._dice.random() < self._cluster.plan.slow_adds:
            transaction.grows_slowly = not transaction.seems_to_fail
            transaction.waits = self._dice.random() < 0.6
        may_be_late = not (transaction.seems_to_fail or transaction.is_incomplete)
        if len(messages) > 1 and self._late_dice.random() < self._cluster.plan.late_adds:
            transaction.grows_late = may_be_late
        return transaction

    def _live(self, transaction: Transaction) -> None:
        dice, after = self._timeline.dice, self._timeline.after
        delay_ms = dice.randint(0, 30_000) if transaction.seems_to_fail else 0
        stored = len(transaction.messages) - (transaction.is_incomplete or transaction.grows_late)
        for index in range(stored):
            delay_ms += dice.randint(0, 20)
            if index and transaction.grows_slowly:
                delay_ms += self._dice.randint(500, 3_500)
            for _ in range(dice.choice([1, 1, 1, 1, 2])):  # tried again: the first answer was lost
                after(delay_ms, lambda i=index: self._prepare(transaction, i))
        if dice.random() < 0.15:  # a client that tries again very late
            index = dice.randrange(stored)
            late_ms = dice.randint(100, 200_000)
            after(late_ms, lambda: self._prepare(transaction, index, is_late=True))
        if self._dice.random() < self._cluster.plan.reuses:
            after(delay_ms + self._dice.randint(50, 100_000), lambda: self._reuse(transaction))
        transaction.known_ms = self._timeline.now_ms + delay_ms
        if transaction.seems_to_fail:
            self.decide(transaction, ROLLBACK, ResolutionSource.PRODUCER)
            return
        if transaction.grows_late:  # it is at work until it has added that
            transaction.known_ms = _NEVER
            return
        if transaction.outcome is None:
            return
        how = dice.choice(["soon", "soon", "late", "very late", "never", "never", "never"])
        waits_ms = {"soon": 2_000, "late": 40_000, "very late": 400_000}.get(how)
        if how in ("late", "very late", "never") and dice.random() < 0.5:
            transaction.known_ms += dice.randint(0, 60_000)
        if waits_ms is not None:
            end_ms = delay_ms + 1 + dice.randint(0, waits_ms)
            transaction.known_ms = min(transaction.known_ms, self._timeline.now_ms + end_ms)
            after(end_ms, lambda: self._end(transaction))
            if dice.random() < 0.2:  # said twice
                after(end_ms + dice.randint(0, 60_000), lambda: self._end(transaction))

    def given_up(self, identity: Identity, resolution: Resolution) -> None:
        """The policy has decided; nobody tells the application, nor whom it is connected to."""
        transaction = self.transactions.get(identity)
        if transaction is None:
            return
        transaction.given_up_ms = self._timeline.now_ms
        if not transaction.grows_late or transaction.known_ms < _NEVER:
            return
        dice = self._late_dice
        transaction.known_ms = self._timeline.now_ms
        index = len(transaction.messages) - 1
        if resolution is not Resolution.PARK:  # it hears of that, and adds nothing any more
            transaction.messages.pop()
            return
        delay_ms = dice.choice([0, 20, 300, 3_000, 40_000, 150_000])
        transaction.known_ms += delay_ms
        for _ in range(dice.choice([1, 1, 2])):
            self._timeline.after(delay_ms, lambda: self._prepare(transaction, index))
            delay_ms += dice.choice([0, 20, 2_000])
        self._timeline.count["messages added after the giving up"] += 1
        if transaction.outcome is not None and dice.random() < 0.5:
            after_ms = delay_ms + 1 + dice.choice([0, 50, 5_000])
            self._timeline.after(after_ms, lambda: self._end(transaction))

    def _prepare(self, transaction: Transaction, index: int, *, is_late: bool = False) -> None:
        if is_late and self._cluster.plan.is_forgetful:
            return
        message, dice = transaction.messages[index], self._timeline.dice
        group, name = transaction.identity
        jumped_ms = 0
        if self._cluster.plan.producers_jump:
            jumped_ms = dice.choice([-3_600_000, 0, 3_600_000])
            self._timeline.count["jumped producers"] += 1
        record = HalfRecord(
            name, group, index, self._timeline.now_ms + jumped_ms, "i-1", message.topic,
            immunity_s=transaction.immunity_s, digest=self._digest(message),
        )  # fmt: skip
        headers = system_headers(record) + message.headers
        half_offset = self._cluster.append(HALF, message.key, message.value, headers)
        if not is_late:
            transaction.half_offsets.append(half_offset)
        self._timeline.count["halves"] += 1
        self._timeline.note("prepare {}.{} half {}", name, index, half_offset)

    def _digest(self, message: Message) -> int:
        """In a life without reuse records say nothing of themselves, as those of old releases."""
        if not self._cluster.plan.reuses and not self._cluster.plan.late_adds:
            return UNKNOWN
        return digest_of(message.topic, None, message.key, message.value, message.headers)

    def _reuse(self, transaction: Transaction) -> None:
        """Another message under the same id, taken by an instance that did not know better."""
        first = transaction.messages[0]
        other = Message(first.topic, first.key, b"another message", first.headers)
        group, name = transaction.identity
        record = HalfRecord(
            name, group, 0, self._timeline.now_ms, "i-2", other.topic, digest=self._digest(other)
        )
        headers = system_headers(record) + other.headers
        transaction.reused.append(self._cluster.append(HALF, other.key, other.value, headers))
        self._timeline.count["ids used again"] += 1
        self._timeline.note("{} is used again, half {}", name, transaction.reused[-1])

    def _end(self, transaction: Transaction) -> None:
        assert transaction.outcome is not None
        resolution = transaction.outcome
        if not transaction.is_honest and self._timeline.chance(0.5):
            resolution = ROLLBACK if resolution is COMMIT else COMMIT
        self.decide(transaction, resolution, ResolutionSource.PRODUCER)

    def end_after_all(self, identity: Identity) -> None:
        """The end comes in the very moment in which the policy gives it up."""
        transaction = self.transactions[identity]
        if transaction.known_ms == _NEVER:
            return
        if transaction.outcome is not None and self._cluster.is_faulty:
            self._timeline.count["ends in the moment of giving up"] += 1
            self._end(transaction)

    # -- decisions --------------------------------------------------------------------------------

    def decide(
        self,
        transaction: Transaction,
        resolution: Resolution,
        source: ResolutionSource,
        asked: tuple[int, ...] = (),
    ) -> None:
        """Durable, or lost on the way (then nobody was told that it is).

        `asked`: the handle of the question that this answers; it counts what was known then.
        """
        cluster, given_up_ms = self._cluster, transaction.given_up_ms
        if cluster.plan.is_forgetful and given_up_ms is not None:
            return  # nobody would know any more what it is about
        if source is not ResolutionSource.POLICY and cluster.fault(
            cluster.plan.decision_lost, "lost decisions"
        ):
            return
        offsets = tuple(transaction.half_offsets)
        if transaction.handles and self._timeline.chance(0.5):
            offsets = transaction.handles[-1]
        elif transaction.handles:
            self._timeline.count["decisions with old offsets"] += 1
        if self._cluster.plan.brokers_agree and self._timeline.chance(0.1):
            offsets = ()
            self._timeline.count["decisions without offsets"] += 1
        covered_count = len(asked) or transaction.covered_count
        if source is ResolutionSource.OPERATOR:
            covered_count = 1  # as much as was found
        self.append_decision(transaction.identity, resolution, source, offsets, covered_count)
        transaction.decided.append((resolution, source))

    def append_decision(
        self,
        identity: Identity,
        resolution: Resolution,
        source: ResolutionSource,
        half_offsets: tuple[int, ...],
        covered_count: int,
    ) -> None:
        entry = op_wire.DecisionEntry(*identity, covered_count, len(half_offsets), source)
        value, headers = op_wire.write(op_wire.tag_of(resolution), [entry], half_offsets)
        op_offset = self._cluster.append(OP, None, value, headers)
        self._timeline.count[f"decisions by {source.value}"] += 1
        self._timeline.note("{} {} by {} op {}", resolution.value, identity[1], source, op_offset)

    # -- checks -----------------------------------------------------------------------------------

    def asked(self, identity: Identity, offsets: tuple[int, ...]) -> str:
        """A check has arrived at the app. What it answers; decisions are in the log by then."""
        transaction = self.transactions[identity]
        transaction.handles.append(offsets)
        timeline = self._timeline
        if transaction.unknown_answers > 0:
            transaction.unknown_answers -= 1
            return "unknown"
        if transaction.outcome is None:
            return "unknown"
        if timeline.now_ms < transaction.known_ms:
            if not transaction.waits:
                return "unknown"
            if transaction.known_ms == _NEVER:
                return "hangs"
            timeline.count["checks that wait for the local transaction"] += 1
            after_ms = transaction.known_ms - timeline.now_ms + 1
            timeline.after(after_ms, lambda: self._answer(transaction, offsets) and None)
            return "hangs"
        return self._answer(transaction, offsets)

    def _answer(self, transaction: Transaction, offsets: tuple[int, ...]) -> str:
        assert transaction.outcome is not None
        timeline = self._timeline
        resolution = transaction.outcome
        if not transaction.is_honest and timeline.chance(0.5):
            resolution = ROLLBACK if resolution is COMMIT else COMMIT
        self.decide(transaction, resolution, ResolutionSource.CHECK, offsets)
        if transaction.answers_twice:
            timeline.count["answers twice"] += 1
            self.decide(transaction, resolution, ResolutionSource.CHECK, offsets)
        if not transaction.is_honest:
            timeline.count["contrary answers"] += 1
            contrary = ROLLBACK if resolution is COMMIT else COMMIT
            self.decide(transaction, contrary, ResolutionSource.PRODUCER)
        return "commit" if resolution is COMMIT else "rollback"
