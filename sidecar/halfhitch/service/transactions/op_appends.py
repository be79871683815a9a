"""Decisions on their way into the op log: those of the same moment share one record.

While one record of a partition is on its way, the next decisions gather; they leave together when
it is confirmed. At low load a decision leaves at once, at high load hundreds share a record. One
record in flight for each partition also fixes the order: of one transaction's decisions, and of
commits, what was asked first lies first.

A decision whose answer nobody awaits (a RocketMQ client ends its transactions one-way) does not set
off a record for _GATHER_S, so that at middling load such decisions share one too. It goes along
with the next one that is awaited.

Against a decision that is still on its way a contrary one is known at once, but which of them
counts is known only when the first has arrived or failed: see asked.py. What is stored, or perhaps
is, is remembered until its owner has read it (remembered.py): a contrary end in between would be
told that it counts.

Native threads append decisions too, with a producer of their own. Two producers' records arrive in
any order, so a contrary decision is not sent before the native one has arrived or failed: it came
first in the log sometimes, while the native one was answered as the one that counts.
"""

from asyncio import Future, get_running_loop
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from halfhitch.core.model import Identity, Resolution, ResolutionSource
from halfhitch.errors import KafkaUnavailable, OutcomeUnknown
from halfhitch.ports import RecordLog
from halfhitch.service.transactions.asked import Elsewhere, UnderWay, is_read, may_count
from halfhitch.service.transactions.remembered import Forgotten, Remembered
from halfhitch.service.transactions.rolled_back import RolledBack
from halfhitch.wire import op as op_wire

#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_PARK: Final = Resolution.PARK
_ROLLBACK: Final = Resolution.ROLLBACK

#: More would make the record too large for its topic; the rest goes into the next one.
_BATCH_MAX: Final = op_wire.MARKS_MAX
#: Of ids and reasons in one record: with the offsets well below a topic's usual megabyte.
_ENTRIES_BYTES_MAX: Final = 500_000

#: A wait that no caller feels, and several times as long as a record takes.
_GATHER_S: Final = 0.004
#: So many do not wait: the record is large enough.
_GATHERED_MAX: Final = 64
#: How soon after its arrival a decision from elsewhere is known to have arrived.
_SETTLED_S: Final = 0.002
#: For so long a request of the process before this one may be on its way: what a broker that is
#: overloaded has taken from the network.
_STRANDED_S: Final = 60.0
#: While Kafka stands still hundreds may be looked after.
_SETTLED_MAX_S: Final = 0.1


#: Hears what an owner here reads in the op log, on the owner's thread: before it counts there, and
#: again when it does. None: a half partition was taken over, and its logs were read up to now.
OnRead = Callable[[Sequence[op_wire.OpRead] | None], None]


class OtherWay(Protocol):
    """Of decisions through this process: see `DecisionLog`, where each of these is asked for."""

    def decisions(self, partition: int, identity: Identity) -> Sequence[Elsewhere] | None:
        """See `DecisionLog.elsewhere`."""
        ...

    def forgotten(self, partition: int) -> Forgotten:
        """See `DecisionLog.forgotten_elsewhere`."""
        ...

    def was_rolled_back(self, partition: int, identity: Identity) -> bool:
        """See `DecisionLog.rolled_back_elsewhere`."""
        ...

    def heard(self, read: Sequence[op_wire.OpRead] | None) -> None:
        """See `OnRead`."""
        ...


@dataclass(slots=True)
class Decision:
    """One decision to be made durable."""

    identity: Identity
    resolution: Resolution
    covered_count: int
    half_offsets: tuple[int, ...]  # hints for people and for other versions
    source: ResolutionSource
    reason: str | None = None


@dataclass(slots=True)
class _Item:
    decision: Decision
    future: "Future[int]"
    under_way: UnderWay
    has_lost: bool

    @property
    def entry_bytes_max(self) -> int:
        """A bound of what it takes in a record: JSON doubles quotes, UTF-8 takes up to four."""
        group, transaction_id = self.decision.identity
        reason = self.decision.reason or ""
        return 64 + 4 * (len(group) + len(transaction_id)) + 6 * len(reason)


@dataclass(slots=True)
class _Watched:
    """Decisions from elsewhere with one that is on its way, and what waits for it here."""

    #: By place in `DecisionLog.elsewhere`, and number; the first of them is the head.
    told: dict[tuple[int, int], UnderWay]
    rest_s: float = 0.0
    held: list[tuple[_Item, bool]] = field(default_factory=list)  # and whether it is awaited

    @property
    def order(self) -> list[UnderWay]:
        """Of the whole transaction."""
        return next(iter(self.told.values())).order

    def contradicts(self, resolution: Resolution) -> bool:
        return any(
            one.resolution is not resolution and not one.has_surely_failed
            for one in self.told.values()
        )


@dataclass(slots=True)
class _Lane:
    """What waits and what is on its way for one partition."""

    waiting: list[_Item] = field(default_factory=list)
    in_flight: int = 0
    is_awaited: bool = False  # one of those that wait
    is_gathering: bool = False  # a timer runs
    #: The head of each transaction with one that is on its way.
    under_way: dict[Identity, UnderWay] = field(default_factory=dict)
    watched: dict[Identity, _Watched] = field(default_factory=dict)
    #: Of the others.
    remembered: Remembered = field(default_factory=Remembered)

    def head(self, identity: Identity, now_s: float) -> UnderWay | None:
        """The first decision that is remembered, whether its owner has read it or not."""
        return self.under_way.get(identity) or self.remembered.find(identity, now_s)

    def asked(self, identity: Identity, read_to: int | None, now_s: float) -> list[UnderWay]:
        """Which decisions may count, as far as their owner has perhaps not read them."""
        head = self.head(identity, now_s)
        if head is None or is_read(head.order, read_to):
            return []
        return may_count(head.order)

    def landed(self, identity: Identity, under_way: UnderWay, now_s: float) -> None:
        """This one is on its way no more."""
        head, order = under_way.head or under_way, under_way.order
        if self.under_way.get(identity) is not head or any(it.is_stored is None for it in order):
            return
        del self.under_way[identity]
        # Giving up is no contradiction to what comes later: see ledger._apply.
        counting = may_count(order)
        if any(one.resolution is not _PARK for one in counting):
            if head.followers:
                head.followers = [one for one in counting if one is not head]
            self.remembered.put(identity, head, now_s)


def _kind(item: _Item) -> str:
    return item.decision.resolution.value


class DecisionLog:
    """Appends decisions for one event loop. The result of a future is the decision's op offset."""

    def __init__(self, log: RecordLog) -> None:
        self._log = log
        #: What else was decided, by whoever else appends decisions in this process: in the order
        #: of asking, without what can count no more. None: nothing is remembered there.
        self.elsewhere: list[Callable[[int, Identity], Sequence[Elsewhere] | None]] = []
        #: How far the owner of a half partition has read the op log; None: it is not here.
        self.owner_read_to: Callable[[int], int | None] = lambda _: None
        #: Who else in this process knows what was rolled back a moment ago.
        self.rolled_back_elsewhere: list[Callable[[int, Identity], bool]] = []
        #: Who must hear of decisions that were made elsewhere.
        self.on_read: list[OnRead] = []
        #: Which of these they have forgotten again.
        self.forgotten_elsewhere: list[Callable[[int], Forgotten]] = []
        #: Of half partitions, when this process began: who decided what lies below is not known.
        self.first_half: Callable[[int], int] = lambda _: 0
        self._lanes: dict[int, _Lane] = {}
        self._rolled_back = RolledBack(0.0)
        self._began_s: float | None = None  # with the first end

    def join(self, way: OtherWay) -> None:
        """Decisions go that way, too."""
        self.elsewhere.append(way.decisions)
        self.forgotten_elsewhere.append(way.forgotten)
        self.rolled_back_elsewhere.append(way.was_rolled_back)
        self.on_read.append(way.heard)

    def append(
        self,
        partition: int,
        decision: Decision,
        *,
        is_awaited: bool = True,
        has_lost: bool = False,
    ) -> "Future[int]":
        """Queue a decision; the future fails as ports.RecordLog says.

        `has_lost`: its owner knows of another one, so it is put on record and not remembered.
        """
        lane = self._lane(partition)
        future: Future[int] = get_running_loop().create_future()
        item = _Item(decision, future, UnderWay(decision.resolution), has_lost)
        self._queue_or_hold(partition, lane, item, is_awaited=is_awaited)
        return future

    def _queue_or_hold(self, partition: int, lane: _Lane, item: _Item, *, is_awaited: bool) -> None:
        identity, resolution = item.decision.identity, item.decision.resolution
        first = lane.head(identity, get_running_loop().time())
        first = first or self._found_elsewhere(partition, identity)
        rival = lane.watched.get(identity)
        if rival is not None and rival.contradicts(resolution):
            rival.held.append((item, is_awaited))
        else:
            self._queue(partition, lane, item, first, is_awaited=is_awaited)

    def _lane(self, partition: int) -> _Lane:
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = _Lane()
        return lane

    def _queue(
        self, partition: int, lane: _Lane, item: _Item, first: UnderWay | None, *, is_awaited: bool
    ) -> None:
        lane.waiting.append(item)
        under_way = item.under_way
        if not item.has_lost and (first is None or under_way.follow(first)):
            lane.under_way[item.decision.identity] = under_way.head or under_way
        lane.is_awaited = lane.is_awaited or is_awaited
        if lane.in_flight == 0:
            self._send_or_gather(partition, lane)

    def under_way(self, partition: int, identity: Identity) -> UnderWay | None:
        """The first decision of this transaction that its owner has perhaps not read yet.

        Whoever asks the owner as well asks it afterwards: it may read on in between.
        """
        found = next(iter(self._asked(partition, identity)), None)
        if found is None:
            found = self._found_elsewhere(partition, identity)
            if found is not None and is_read(found.order, self.owner_read_to(partition)):
                return None
        return found

    def stored(self, partition: int, identity: Identity) -> Resolution | None:
        """The decision that is stored and counts, as far as that is known here and its owner has
        perhaps not read it.
        """
        first = self.under_way(partition, identity)
        found = [] if first is None else may_count(first.order)
        return found[0].resolution if len(found) == 1 and found[0].is_stored else None

    def _asked(self, partition: int, identity: Identity) -> list[UnderWay]:
        """The decisions that went this way."""
        lane = self._lanes.get(partition)
        if lane is None:
            return []
        now_s = get_running_loop().time()
        return lane.asked(identity, self.owner_read_to(partition), now_s)

    def _found_elsewhere(self, partition: int, identity: Identity) -> UnderWay | None:
        """As long as one is on its way these are the same objects, which are told how it went."""
        lane = self._lanes.get(partition)
        watched = None if lane is None else lane.watched.get(identity)
        if watched is not None:
            return next(iter(may_count(watched.order)), None)
        told = {
            (place, one.number): UnderWay.elsewhere(one)
            for place, tell in enumerate(self.elsewhere)
            for one in tell(partition, identity) or ()
        }
        if not told:
            return None
        first, *others = told.values()
        for other in others:
            other.follow(first)
        if any(one.is_stored is None for one in told.values()):
            lane = self._lane(partition)
            lane.watched[identity] = _Watched(told)
            get_running_loop().call_later(_SETTLED_S, self._settle, partition, lane, identity)
        return first

    def _settle(self, partition: int, lane: _Lane, identity: Identity) -> None:
        """Look how the decisions from elsewhere went; then let the contrary ones go."""
        rival = lane.watched[identity]
        watched = rival.told
        heard = [tell(partition, identity) for tell in self.elsewhere]
        for (place, number), one in watched.items():
            if one.is_stored is None:
                _hear(one, number, heard[place])
        if any(one.is_stored is None for one in watched.values()):
            rest_s = rival.rest_s = min(2 * rival.rest_s or _SETTLED_S, _SETTLED_MAX_S)
            get_running_loop().call_later(rest_s, self._settle, partition, lane, identity)
            return
        del lane.watched[identity]
        first = next(iter(watched.values()))
        # Another one there: all of these came behind what its owner has read.
        if lane.under_way.setdefault(identity, first) is first:
            lane.landed(identity, first, get_running_loop().time())
        for item, is_awaited in rival.held:
            self._queue_or_hold(partition, lane, item, is_awaited=is_awaited)

    def has_forgotten(self, partition: int, half_offset: int, read_to: int | None) -> bool:
        """Whether a decision of the transaction that lies there may have been stored by this
        process, or before it began, and is not remembered. `read_to`: an owner here told of what
        lies below that, before it was asked what is under way.

        A request of a process that has died may still be on its way to Kafka, and land before what
        is stored now: of what lay there before, only the log tells for a while what came first.
        """
        if half_offset < self.first_half(partition) and (read_to is None or self._is_young()):
            return True
        lane = self._lanes.get(partition)
        if lane is not None and lane.remembered.forgotten.may_hold(half_offset, read_to):
            return True
        return any(
            told(partition).may_hold(half_offset, read_to) for told in self.forgotten_elsewhere
        )

    def _is_young(self) -> bool:
        now_s = get_running_loop().time()
        if self._began_s is None:
            self._began_s = now_s
        return now_s - self._began_s < _STRANDED_S

    def went_both_ways(self, partition: int, identity: Identity) -> bool:
        """Whether decisions are remembered here and elsewhere, and so perhaps in a wrong order.

        Native threads leave what was looked at to this way for half a minute; what nobody has read
        may be remembered for longer.
        """
        return bool(self._asked(partition, identity)) and any(
            tell(partition, identity) for tell in self.elsewhere
        )

    def is_known(self, partition: int, identity: Identity) -> bool:
        """Whether a decision was asked for here that its owner has perhaps not read yet."""
        return bool(self._asked(partition, identity))

    def was_rolled_back(self, partition: int, identity: Identity) -> bool:
        """Whether a prepare under this id would be dropped, although its owner here knows nothing.

        A roll-back counts that is on its way still, or whose fate nobody knows: whoever asked for
        it does not expect a message of that id to go out.
        """
        # Not `under_way`: whoever asks native threads there takes the transaction's end from them.
        asked = self._asked(partition, identity)
        if any(one.resolution is _ROLLBACK for one in asked):
            return True
        if any(one.is_stored for one in asked):
            return False
        return self._rolled_back.has(partition, identity, get_running_loop().time()) or any(
            has(partition, identity) for has in self.rolled_back_elsewhere
        )

    def read(self, events: Sequence[op_wire.OpRead] | None) -> None:
        """See OnRead."""
        for hear in self.on_read:
            hear(events)

    def _send_or_gather(self, partition: int, lane: _Lane) -> None:
        if lane.is_awaited or len(lane.waiting) >= _GATHERED_MAX:
            self._send(partition, lane)
        elif not lane.is_gathering:
            lane.is_gathering = True
            get_running_loop().call_later(_GATHER_S, self._gathered, partition, lane)

    def _gathered(self, partition: int, lane: _Lane) -> None:
        lane.is_gathering = False
        if lane.waiting and lane.in_flight == 0:
            self._send(partition, lane)

    def _send(self, partition: int, lane: _Lane) -> None:
        """One record for each run of equal tags, so that the log keeps the order of asking.

        That of one transaction, and of commits, which their messages follow; the sort keeps both.
        A few roll-backs of others among them would cut a record into many.
        """
        batch, lane.waiting = lane.waiting[:_BATCH_MAX], lane.waiting[_BATCH_MAX:]
        kind = batch[0].decision.resolution
        is_mixed = any(item.decision.resolution is not kind for item in batch)
        if is_mixed and all(item.under_way.head is None for item in batch):
            batch.sort(key=_kind)
        lane.is_awaited = lane.is_awaited and bool(lane.waiting)
        run: list[_Item] = []
        offset_count = entries_bytes = 0
        for item in batch:
            decision = item.decision
            if run and (
                decision.resolution is not run[-1].decision.resolution
                or offset_count + len(decision.half_offsets) > op_wire.OFFSETS_MAX
                or entries_bytes + item.entry_bytes_max > _ENTRIES_BYTES_MAX
            ):
                self._send_run(partition, lane, run)
                run, offset_count, entries_bytes = [], 0, 0
            run.append(item)
            offset_count += len(decision.half_offsets)
            entries_bytes += item.entry_bytes_max
        if run:
            self._send_run(partition, lane, run)

    def _send_run(self, partition: int, lane: _Lane, run: list[_Item]) -> None:
        entries: list[op_wire.Entry] = []
        half_offsets: list[int] = []
        for item in run:
            decision = item.decision
            entries.append(
                op_wire.DecisionEntry(
                    *decision.identity,
                    decision.covered_count,
                    len(decision.half_offsets),
                    decision.source,
                    decision.reason,
                )
            )
            half_offsets.extend(decision.half_offsets)
        value, headers = op_wire.write(
            op_wire.tag_of(run[0].decision.resolution), entries, half_offsets
        )
        lane.in_flight += 1
        stored = self._log.append_op(partition, value, headers)
        stored.add_done_callback(lambda done: self._stored(partition, lane, run, done))

    def _stored(self, partition: int, lane: _Lane, run: list[_Item], stored: "Future[int]") -> None:
        lane.in_flight -= 1
        error, now_s = stored.exception(), get_running_loop().time()
        op_offset = stored.result() if error is None else None
        if op_offset is not None:
            # Before these are put in: what took long to be stored is not old.
            lane.remembered.stored(op_offset, self.owner_read_to(partition), now_s)
        for item in run:
            identity, future, under_way = item.decision.identity, item.future, item.under_way
            if error is None:
                under_way.is_stored, under_way.op_offset = True, op_offset
            else:
                under_way.fail(error)
            half_offset = next(iter(item.decision.half_offsets), -1)
            if op_offset is not None and under_way.resolution is _PARK:
                lane.remembered.pass_over(half_offset, op_offset)
            lane.remembered.note(half_offset)
            lane.landed(identity, under_way, now_s)
            if under_way.resolution is _ROLLBACK and any(
                one.resolution is _ROLLBACK for one in may_count(under_way.order)
            ):
                self._rolled_back.add(partition, identity, now_s)
            if future.done():  # whoever asked has gone; the decision stands all the same
                continue
            if error is None:
                future.set_result(stored.result())
            else:
                future.set_exception(error)
        if lane.waiting and lane.in_flight == 0:
            self._send_or_gather(partition, lane)


def _hear(one: UnderWay, number: int, told: Sequence[Elsewhere] | None) -> None:
    """What has become of a decision that was on its way elsewhere."""
    found = next((it for it in told or () if it.number == number), None)
    if found is not None:
        one.hear(found)
    elif told is None:  # so much has happened since that it is remembered no more
        one.fail(OutcomeUnknown("whether it was stored is known no more"))
    else:
        one.fail(KafkaUnavailable("it was not stored"))
