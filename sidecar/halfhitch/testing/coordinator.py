"""`MemoryCoordinator`: the data door of a coordinator in memory, and a hand on its clock."""

import asyncio
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from halfhitch.adapters.memory import MemoryClock, MemoryKafka, MemoryRecord
from halfhitch.adapters.system import SystemClock
from halfhitch.config import Purpose, load
from halfhitch.core.model import ProducerGroup, TransactionId
from halfhitch.errors import ConfigurationError
from halfhitch.service.api import Filter
from halfhitch.testing.loops import loop_in_thread
from halfhitch.testing.mishaps import Mishap, Mishaps
from halfhitch.testing.partitions import wait_until_quiet
from halfhitch.testing.world import AskedCheck, World
from halfhitch.wire import headers as names
from halfhitch.wire.parked import Parked, read_parked

__all__ = ["AskedCheck", "DeliveredMessage", "MemoryCoordinator"]

T = TypeVar("T")

_PARTITION_COUNT: Final = 2
#: Real time: nothing in memory takes that long unless something is wrong.
_DEADLINE_S: Final = 30.0
#: Real time for a producer's answer to a check. Who is slower is taken for silent.
_ANSWER_WAIT_S: Final = 5.0
#: An answer that is no decision changes nothing there, and is seen by looking.
_LOOK_S: Final = 0.01
#: The clock moves in steps, so that each check falls due at its own time.
_STEP_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class DeliveredMessage:
    """One message as a consumer that reads committed records is given it."""

    topic: str
    partition: int
    log_offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]  # the user's own
    transaction_id: str
    producer_group: str


class MemoryCoordinator:
    """Use it in a `with` block; give `address` to the program under test.

    `topics` are the users' topics, with their numbers of partitions. `settings` are those of a
    coordinator by their dotted names, {"checks.count_max": 3}. Time stands still until `advance`.
    What is stored lasts as long as the block. Not for production: nothing in it is durable.
    """

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self._settings = load(settings, purpose=Purpose.CLIENT)
        self._clock = MemoryClock(SystemClock().wall_ms())
        self._kafka = MemoryKafka(self._clock, partition_count=_PARTITION_COUNT)
        self._mishaps = Mishaps()
        self._stack = ExitStack()
        self._world: World | None = None
        self._silent_at = 0  # so many questions had gone out, and one of them was not answered
        for topic, count in (topics or {}).items():
            self.create_topic(topic, count)

    # -- life --------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self._world is not None:
            raise ConfigurationError("This MemoryCoordinator is running already.")
        with ExitStack() as stack:
            self._loop = stack.enter_context(loop_in_thread())
            self._silent_at = 0
            self._world = world = self._on_loop(self._made())
            stack.callback(lambda: self._on_loop(world.stop()))
            self._kafka.create_topic(world.parked_topic)
            self._on_loop(world.start())
            stack.enter_context(self._mishaps.installed())
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._world = None
        self._stack.close()

    async def _made(self) -> World:
        return World(self._settings, self._kafka, self._clock)

    @property
    def _running(self) -> World:
        if self._world is None:
            raise ConfigurationError(
                "This MemoryCoordinator is not running: use it as `with MemoryCoordinator() as ...`"
            )
        return self._world

    def _on_loop(self, work: "Coroutine[Any, Any, T]") -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_DEADLINE_S)

    @property
    def address(self) -> str:
        """Of the data door, as producers take it."""
        return f"http://127.0.0.1:{self._running.door.port}"

    # -- time --------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Let time pass at the coordinator. What falls due meanwhile has happened on return.

        A check that nobody answers within five real seconds is taken for unanswered, and time goes
        on without it.
        """
        if seconds < 0:
            raise ValueError("time does not run backwards")
        self.settle()
        left_s = seconds
        while left_s > 0:
            step_s = min(left_s, _STEP_S) if self._has_pending() else left_s
            self._clock.advance(step_s)
            left_s -= step_s
            self.settle()

    def settle(self) -> None:
        """Return when everything that can be done now is done: messages forwarded, checks answered.

        `messages` and the other questions do it by themselves.
        """
        world = self._running
        give_up_s = time.monotonic() + _ANSWER_WAIT_S
        while True:
            self._come_to_rest(world)
            if not self._on_loop(self._swept()):
                self._come_to_rest(world)  # with the answers
                return
            question_count = len(world.gate.asked)
            if question_count == self._silent_at:
                return  # was waited for before
            if time.monotonic() >= give_up_s:
                self._silent_at = question_count
                return
            with self._kafka.changed:  # a producer's answer ends up there
                self._kafka.changed.wait(_LOOK_S)

    def _come_to_rest(self, world: World) -> None:
        busy = wait_until_quiet(self._kafka, list(world.workers.values()), _DEADLINE_S)
        if busy and not self._kafka.faults.is_away:
            trouble = [world.workers[p].state().trouble or "it is busy" for p in busy]
            raise TimeoutError(f"half partitions {busy} do not come to rest: {trouble}")

    async def _swept(self) -> bool:
        """Whether a question is out."""
        await asyncio.sleep(0)  # what owners have handed over arrives
        desk = self._running.desk
        desk.sweep(self._clock.monotonic_s())
        return desk.is_asking

    def _has_pending(self) -> bool:
        found = (worker.owner for worker in self._running.workers.values())
        return any(o is None or o.numbers().pending_count for o in found)

    # -- what came of it ---------------------------------------------------------------------------

    def create_topic(self, topic: str, partition_count: int = 1) -> None:
        """A topic of the users."""
        self._kafka.create_topic(topic, partition_count)

    def messages(self, topic: str) -> list[DeliveredMessage]:
        """What consumers of the topic see, partition by partition, in order."""
        self._refuse_unknown(topic)
        self.settle()
        return [_delivered(record) for record in self._kafka.committed(topic)]

    def pending(self, producer_group: str | None = None) -> list[str]:
        """Ids of the transactions that are not decided, oldest first."""
        self.settle()
        world = self._running
        found, _ = self._on_loop(world.ownership.undecided(Filter(producer_group=producer_group)))
        return [transaction.transaction_id for transaction in found]

    def parked(self) -> list[DeliveredMessage]:
        """Messages that were given up: nobody could say what became of their transactions."""
        self.settle()
        return [
            _delivered(record)
            for record in self._kafka.committed(self._running.parked_topic)
            if isinstance(read_parked(record.offset(), record.headers()), Parked)
        ]

    def checks(self, transaction_id: str | None = None) -> list[AskedCheck]:
        """The questions that went out, in order."""
        self.settle()
        asked = list(self._running.gate.asked)
        return [c for c in asked if transaction_id in (None, c.transaction_id)]

    def _refuse_unknown(self, topic: str) -> None:
        if self._kafka.partition_count(topic) is None:
            raise ConfigurationError(
                f"There is no topic {topic!r} here: MemoryCoordinator(topics={{{topic!r}: 1}}) or "
                "create_topic makes it."
            )

    # -- mishaps -----------------------------------------------------------------------------------

    @contextmanager
    def crash_after_local_commit(self) -> Iterator[None]:
        """The next commit or rollback in this block raises SimulatedCrash, and is not sent."""
        with self._mishap(Mishap.CRASH):
            yield

    @contextmanager
    def lose_next_commit(self) -> Iterator[None]:
        """The next commit or rollback never arrives: DecisionUnknown."""
        with self._mishap(Mishap.LOST):
            yield

    @contextmanager
    def lose_next_answer(self) -> Iterator[None]:
        """The next commit or rollback is carried out, and its answer is lost: DecisionUnknown."""
        with self._mishap(Mishap.ANSWER_LOST):
            yield

    @contextmanager
    def _mishap(self, mishap: Mishap) -> Iterator[None]:
        self._mishaps.add(mishap)
        try:
            yield
        except BaseException:
            self._mishaps.take_back(mishap)
            raise
        if self._mishaps.take_back(mishap):
            raise AssertionError(
                "No commit or rollback was sent in this block, so none could go wrong."
            )

    @contextmanager
    def no_producer(self) -> Iterator[None]:
        """In this block no producer is live: nobody is asked, and no check is counted."""
        self._running.gate.is_shut = True
        try:
            yield
        finally:
            self._running.gate.is_shut = False

    @contextmanager
    def kafka_away(self) -> Iterator[None]:
        """In this block the coordinator does not reach Kafka: prepares and ends are put off."""
        self._kafka.faults.is_away = True
        try:
            yield
        finally:
            self._kafka.faults.is_away = False


def _delivered(record: MemoryRecord) -> DeliveredMessage:
    headers = record.headers() or []
    by_name = dict(headers)
    return DeliveredMessage(
        record.topic(),
        record.partition,
        record.offset(),
        record.key(),
        record.value(),
        tuple((name, value) for name, value in headers if not names.is_reserved(name)),
        TransactionId((by_name.get(names.UNIQ_KEY) or b"").decode()),
        ProducerGroup((by_name.get(names.PGROUP) or b"").decode()),
    )
