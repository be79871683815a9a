"""Installations whose transactions are checked back: engines on a real Kafka and a real Redis."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from redis import Redis

from halfhitch.adapters.redis.keys import identity_of
from halfhitch.core.check_rules import CheckRules
from halfhitch.core.model import ProducerGroup, Resolution, ResolutionSource
from halfhitch.errors import HalfHitchError
from halfhitch.service.api import Filter
from halfhitch.service.checking.api import CheckOutcome
from halfhitch.service.checking.limits import DeskLimits
from halfhitch.wire import handle as handle_wire
from halfhitch.wire.parked import Parked, read_parked
from harness.check_witness import Answer, Plan, Witness, fate_of
from harness.checkers import Fate, Truth
from harness.defaults import check_rules, desk_limits, owner_limits
from harness.engines import GROUP, Site, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from halfhitch.core.model import Identity
    from halfhitch.engine import Engine
    from halfhitch.service.api import OutgoingMessage, Prepared
    from halfhitch.wire.check import Check
    from harness.kafka import ReadRecord

#: Quick, and without the jitter that only blurs what is measured.
RULES = check_rules(
    immunity_ms=400, interval_ms=600, jitter=0.0, count_max=3, doubt_ms=200, again_ms=300,
    answer_ms=12_000,
)  # fmt: skip
DESK_LIMITS = desk_limits(answer_s=0.7)
RESOLUTIONS = {Answer.COMMIT: Resolution.COMMIT, Answer.ROLLBACK: Resolution.ROLLBACK}


class Link:
    """A producer in the engine's own process: it answers as the witness tells it.

    `answer_s`: how long it takes; `room`: how many checks it takes at a time.
    """

    def __init__(
        self,
        engine: Engine,
        witness: Witness,
        *,
        name: str = "link",
        group: str = GROUP,
        answer_s: float = 0.0,
        room: int | None = None,
    ) -> None:
        self.engine, self.witness, self.name = engine, witness, name
        self.producer_group = ProducerGroup(group)
        self.answer_s, self.room = answer_s, room
        self.refused_count = 0
        #: Answers that the coordinator refused, by transaction.
        self.errors: dict[str, HalfHitchError] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def at_once(self) -> int:
        return 1_000_000

    def offer(self, check: Check) -> bool:
        if self.room is not None and len(self._tasks) >= self.room:
            self.refused_count += 1
            return False
        answer = self.witness.ask(check.identity[1], check.number, self.name)
        if answer is not Answer.SILENT:
            task = asyncio.ensure_future(self._answer(check, answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return True

    async def _answer(self, check: Check, answer: Answer) -> None:
        if self.answer_s:
            await asyncio.sleep(self.answer_s)
        if answer is Answer.UNKNOWN:
            self.engine.desk.settle(check.identity, CheckOutcome.UNKNOWN)
            return
        transaction_id = check.identity[1]
        try:
            await self.engine.transactions.end(
                check.handle, RESOLUTIONS[answer], source=ResolutionSource.CHECK
            )
        except HalfHitchError as error:
            self.errors[transaction_id] = error
        else:
            self.witness.decided(transaction_id)

    def connect(self) -> Link:
        self.engine.desk.connect(self)
        return self

    def disconnect(self) -> None:
        self.engine.desk.disconnect(self)


@dataclass
class CheckSite(Site):
    """A site whose rules are quick, with a witness of everything that its producers are asked."""

    redis_url: str | None = None
    rules: CheckRules = RULES
    desk_limits: DeskLimits = DESK_LIMITS
    witness: Witness = field(default_factory=Witness)
    _places: dict[str, int] = field(default_factory=dict)
    _newest: dict[int, int] = field(default_factory=dict)

    def options(self, **changes: Any) -> Any:
        values = {
            "owner_limits": owner_limits(check_rules=self.rules),
            "desk_limits": self.desk_limits,
            "redis_url": self.redis_url,
            **changes,
        }
        return super().options(**values)

    @asynccontextmanager
    async def engine(self, **options: Any) -> AsyncIterator[Engine]:
        """A started engine that takes prepares, whatever it owns."""
        async with super().engine(**options) as engine:
            await until(lambda: not engine.unready_reasons(), "readiness")
            yield engine

    @asynccontextmanager
    async def doorkeeper(self, **options: Any) -> AsyncIterator[Engine]:
        """An engine that owns no partition."""
        async with self.engine(working=None, owner_enabled=False, **options) as engine:
            yield engine

    def link(self, engine: Engine, name: str = "link", **options: Any) -> Link:
        """A producer of the group, live from now on."""
        return Link(engine, self.witness, name=name, **options).connect()

    async def orphan(
        self,
        engine: Engine,
        transaction_id: str,
        plan: Plan,
        messages: Sequence[OutgoingMessage] | None = None,
        *,
        group: str = GROUP,
        immunity_s: int | None = None,
    ) -> Prepared:
        """Prepare and never end; the truth is what the plan leads to."""
        messages = messages or self.pair(transaction_id)
        self.witness.prepares(transaction_id, plan)
        prepared = await engine.transactions.prepare(
            producer_group=group,
            messages=messages,
            transaction_id=transaction_id,
            immunity_s=immunity_s,
        )
        self.note(transaction_id, messages, fate_of(plan))
        known = handle_wire._parse(handle_wire._from_text(prepared.handle)[:-16])
        newest = max(self._newest.get(known.partition, -1), *known.half_offsets)
        self._newest[known.partition] = newest
        return prepared

    async def orphans(
        self, engine: Engine, names: Sequence[str], plan: Plan, *, group: str = GROUP
    ) -> list[Prepared]:
        """Many of one message each, prepared side by side."""
        room = asyncio.Semaphore(64)

        async def one(name: str) -> Prepared:
            async with room:
                return await self.orphan(
                    engine, name, plan, [self.message(value=name.encode())], group=group
                )

        return await asyncio.gather(*[one(name) for name in names])

    async def end(self, engine: Engine, handle: str, resolution: Resolution, **options: Any) -> str:
        """A producer's own end; the truth follows. Gives the transaction's id."""
        ended = await engine.transactions.end(handle, resolution, **options)
        self.witness.decided(ended.transaction_id)
        fate = Fate.COMMITTED if resolution is Resolution.COMMIT else Fate.ROLLED_BACK
        messages = self.truths[self._places[ended.transaction_id]].messages
        self.note(ended.transaction_id, messages, fate)
        return ended.transaction_id

    def note(self, transaction_id: str, messages: Sequence[OutgoingMessage], fate: Fate) -> None:
        """As ever, but ten thousand of them in no time."""
        truth = Truth(transaction_id, tuple(messages), fate)
        if transaction_id in self._places:
            self.truths[self._places[transaction_id]] = truth
        else:
            self._places[transaction_id] = len(self.truths)
            self.truths.append(truth)

    # -- looking ---------------------------------------------------------------------------------

    def parked(self) -> dict[str, list[tuple[ReadRecord, Parked]]]:
        """Parked messages by transaction."""
        found: dict[str, list[tuple[ReadRecord, Parked]]] = {}
        for record in self.read(self.names.parked):
            why = read_parked(record.offset, list(record.headers))
            if isinstance(why, Parked):
                raw_id = dict(record.headers)["UNIQ_KEY"] or b""
                found.setdefault(raw_id.decode(), []).append((record, why))
        return found

    def parked_faults(self) -> list[str]:
        """Undecided ones that are not parked once and whole, and others that are parked."""
        found, result = self.parked(), []
        for truth in self.truths:
            there = Counter(
                (record.key, record.value) for record, _ in found.pop(truth.transaction_id, [])
            )
            wanted = Counter((m.key, m.value) for m in truth.messages)
            if there != (wanted if truth.fate is Fate.PENDING else Counter()):
                result.append(f"{truth.transaction_id} is {truth.fate.name}; parked is {there}")
        return result + [
            f"nobody has sent {transaction_id}, which is parked" for transaction_id in found
        ]

    async def until_seen(self, engine: Engine, *instances: str, group: str = GROUP) -> None:
        """Wait until the engine knows which other instances have producers of the group."""
        await until(
            lambda: (
                engine._parts.index is not None
                and set(engine._parts.index.instances(group)) == set(instances)
            ),
            f"{instances} seen",
        )

    async def until_pending(
        self, *engines: Engine, count: int = 0, deadline_s: float = 30.0
    ) -> None:
        """Wait until all that was prepared is read, and nothing is left but so many undecided."""

        def is_reached() -> bool:
            states = [state for engine in engines for state in engine.partitions()]
            positions = {state.partition: state.half_position for state in states}
            return (
                sum(state.pending_count for state in states) == count
                and not any(state.decided_count + state.early_count for state in states)
                and all(positions.get(p, -1) > newest for p, newest in self._newest.items())
            )

        await until(
            is_reached,
            lambda: (
                f"{count} undecided: {[e.partitions() for e in engines]}; "
                f"asked {self.witness.asked}; "
                f"{[(e.desk.describe(), e.desk._delivery.questions) for e in engines]}"
            ),
            deadline_s,
        )

    async def judged(self, *, slack_s: float = 0.3) -> None:
        """All judges are content, those of the parked topic included."""
        await self.until_faultless()
        parked_faults: list[str] = []

        def is_parked() -> bool:
            nonlocal parked_faults
            parked_faults = self.parked_faults()
            return not parked_faults

        await until(is_parked, lambda: f"parked: {parked_faults[:5]}")
        found = self.witness.faults(self.rules, slack_s=slack_s)
        assert not found, {name: sentences[:5] for name, sentences in found.items()}

    async def undecided(self, *engines: Engine) -> dict[Identity, int]:
        """Check counts of what the engines' ledgers hold as undecided."""
        found: dict[Identity, int] = {}
        for engine in engines:
            pending, _ = await engine._parts.ownership.undecided(Filter(count_max=1_000_000))
            for one in pending:
                identity = ProducerGroup(one.producer_group), one.transaction_id
                found[identity] = one.check_count  # type: ignore[index]
        return found


@dataclass
class IndexHeld:
    """What Redis holds of undecided transactions."""

    due: set[Identity]
    hashes: dict[Identity, int]  # to the check count

    @classmethod
    def read(cls, client: Redis) -> IndexHeld:
        due, hashes = set(), {}
        for raw in client.scan_iter("hh:*"):
            kind, _, rest = raw.split(b":", 2)[2].partition(b":")
            if kind == b"due":
                due |= {identity_of(member) for member in client.zrange(raw, 0, -1)}
            elif kind == b"tx":
                identity = identity_of(rest.partition(b":")[2])
                hashes[identity] = int(client.hget(raw, "check_count") or -1)
        assert None not in due
        assert None not in hashes
        return cls(due, hashes)  # type: ignore[arg-type]

    def differences(self, pending: dict[Identity, int]) -> list[str]:
        """From what the ledgers hold."""
        result = []
        for name, there in (("due", self.due), ("tx", set(self.hashes))):
            result += [f"{identity} is missing in {name}" for identity in pending.keys() - there]
            result += [f"{identity} is left in {name}" for identity in there - pending.keys()]
        result += [
            f"{identity} has check count {self.hashes[identity]}, not {count}"
            for identity, count in pending.items()
            if self.hashes.get(identity, count) != count
        ]
        return result


async def until_index_matches(
    client: Redis, pending: Callable[[], Any], deadline_s: float = 15.0
) -> IndexHeld:
    """Wait until Redis holds what the ledgers do; `pending()` is awaited anew each time."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + deadline_s
    while True:
        before = await pending()
        held = await asyncio.to_thread(IndexHeld.read, client)
        found = held.differences(before)
        if not found:
            return held
        assert loop.time() < end_s, (len(found), found[:5])
        await asyncio.sleep(0.05)
