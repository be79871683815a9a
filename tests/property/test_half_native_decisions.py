"""Lives of one transaction whose decisions go both ways, natively and by the loop.

Native threads remember theirs in Rust, the loop in Python; each is told what the log says, whatever
is refused, slow, or of unknown fate, however far the owner has read, and however much is forgotten
when it comes back.
"""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from halfhitch.core.model import DecisionRead, Identity, Resolution, ResolutionSource
from halfhitch.core.standing import Standing
from halfhitch.errors import KafkaUnavailable, OutcomeUnknown
from halfhitch.ports import KafkaHeaders
from halfhitch.service.transactions import first, op_appends
from halfhitch.service.transactions.end import Deciding
from halfhitch.service.transactions.first import FirstDecisions, LookedUp, Place
from halfhitch.service.transactions.op_appends import DecisionLog
from halfhitch.service.transactions.remembered import Forgotten
from halfhitch.wire import op as op_wire
from halfhitch.wire.handle import Handle
from harness.end_answers import answer_of
from harness.native import native, needs_native
from harness.twin import identity

pytestmark = needs_native

C, R = Resolution.COMMIT, Resolution.ROLLBACK
T = identity("T")
HANDLE = Handle(0, *T, (0,), ("orders",))
SEED = int(os.environ.get("SEED", "0"))
QUEUE_FULL, TIMED_OUT = -184, -192
_HAPPENINGS = [*["native"] * 2, *["ask"] * 4, *["lands"] * 6, *["owner"] * 2, *["others"] * 3]
#: Afterwards a roll-back that its owner has not read may be forgotten.
_ROLLED_BACK_S = 60.0


@dataclass
class Sent:
    """A record on its way; `fate` is thrown when it is sent."""

    resolution: Resolution
    fate: str  # stored, refused, lost, or stored without an answer
    number: int = 0  # a native one
    answer: asyncio.Future[int] | None = None  # of the loop
    op_offset: int | None = None


@dataclass
class Told:
    number: int
    is_commit: bool
    is_stored: bool | None
    op_offset: int | None


@dataclass
class Life:
    """The log, its owner, what goes natively, and what the loop asks for."""

    dice: random.Random
    log: list[Resolution | None] = field(default_factory=list)  # None: of another transaction
    happened: list[tuple[str, int, int, int]] = field(default_factory=list)
    native_sent: list[Sent] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    told: list[tuple[Resolution, str]] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    read_to: int = 0
    is_owned: bool = True
    is_looked_at: bool = False
    is_certain: bool = True
    passed_s: float = 0.0

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        since_s = asyncio.BaseEventLoop.time
        loop.time = lambda: since_s(loop) + self.passed_s  # type: ignore[method-assign,arg-type]
        self.decisions = DecisionLog(self)  # type: ignore[arg-type]
        self.decisions.elsewhere.append(self.native_decisions)
        self.decisions.rolled_back_elsewhere.append(self.native_rolled_back)
        self.decisions.forgotten_elsewhere.append(lambda _: Forgotten(*self._after()[2]))
        self.decisions.owner_read_to = self.op_read_to
        self.firsts = FirstDecisions(self, self, wait_s=1_000.0)
        parts: Any = SimpleNamespace(decisions=self.decisions, owners=self, firsts=self.firsts)
        self.deciding = Deciding(parts)

    def fate(self) -> str:
        fate = self.dice.choice(["stored", "stored", "stored", "refused", "lost", "unanswered"])
        self.is_certain = self.is_certain and fate in ("stored", "refused")
        return fate

    # -- natively --

    def ask_natively(self) -> None:
        """Not of what the loop has looked at."""
        resolution = self.dice.choice([C, R])
        self.happened.append(("commit" if resolution is C else "rollback", 0, 0, 0))
        number = sum(what in ("commit", "rollback") for what, *_ in self.happened)
        self.native_sent.append(Sent(resolution, self.fate(), number))
        self.story.append(f"native {number}: {resolution.value} {self.native_sent[-1].fate}")

    def land_natively(self) -> None:
        sent = self.native_sent.pop(0)
        self._store(sent)
        error = {"stored": 0, "refused": QUEUE_FULL}.get(sent.fate, TIMED_OUT)
        op_offset = -1 if sent.op_offset is None else sent.op_offset
        if error == 0:
            self.happened.append(("stores", self.read_to if self.is_owned else -1, 0, op_offset))
        self.happened.append(("lands", sent.number, error, op_offset))
        self.story.append(f"native {sent.number} lands")

    def _after(self) -> tuple[Any, bool, tuple[int, int]]:
        if not self.happened:
            return None, False, (0, 0)
        return native.decisions_after(self.happened)[-1]  # type: ignore[no-any-return]

    def native_decisions(self, _: int, asked: Any) -> list[Told] | None:
        self.is_looked_at = True
        chain, *_ = self._after()
        return None if chain is None else [Told(*one) for one in chain]

    def native_rolled_back(self, _: int, asked: Any) -> bool:
        return bool(self._after()[1])

    # -- by the loop --

    def append_op(self, partition: int, value: bytes, headers: KafkaHeaders) -> asyncio.Future[int]:
        """As ports.RecordLog has it."""
        read = op_wire.read(0, 0, value, headers)
        assert isinstance(read, list), read
        event = read[0]  # all are equal
        assert isinstance(event, DecisionRead)
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.sent.append(Sent(event.resolution, self.fate(), answer=answer))
        self.story.append(f"the loop sends {event.resolution.value} {self.sent[-1].fate}")
        return answer

    def land(self) -> None:
        sent = self.sent.pop(0)
        self._store(sent)
        assert sent.answer is not None
        self.story.append(f"the loop's {sent.resolution.value} lands")
        if sent.fate == "stored":
            assert sent.op_offset is not None
            sent.answer.set_result(sent.op_offset)
        elif sent.fate == "refused":
            sent.answer.set_exception(KafkaUnavailable("away"))
        else:
            sent.answer.set_exception(OutcomeUnknown("no answer"))

    def _store(self, sent: Sent) -> None:
        if sent.fate in ("stored", "unanswered"):
            sent.op_offset = len(self.log)
            self.log.append(sent.resolution)

    # -- the owner, and whoever reads the log: as Owners and Inquiry have it --

    def first(self, end: int | None = None) -> Resolution | None:
        return next(filter(None, self.log[:end]), None)

    def op_read_to(self, _: int) -> int | None:
        return self.read_to if self.is_owned else None

    def has_read(self, place: Place) -> bool | None:
        return self.is_owned and place.op_offset < self.read_to

    def standing(self, partition: int, asked: Identity, half_offset: int) -> Standing | None:
        if not self.is_owned:
            return Standing.UNKNOWN
        first = self.first(self.read_to)
        return Standing.PENDING if first is None else Standing.of_resolution(first)

    def is_reused(self, partition: int, half_offsets: object) -> bool:
        return False

    def covered_count(self, partition: int, asked: Identity) -> int:
        return 1

    async def look_up(
        self, partition: int, asked: Identity, half_offset: int
    ) -> tuple[Resolution | None, bool]:
        raise AssertionError("several ask together")

    async def look_up_many(
        self, partition: int, half_offsets: dict[Identity, int], seen_ms: int | None = None
    ) -> dict[Identity, LookedUp]:
        await asyncio.sleep(0)
        return dict.fromkeys(half_offsets, (self.first(), False))

    async def ask(self, resolution: Resolution) -> None:
        """As the service does it."""
        place = len(self.told)
        self.told.append((resolution, "nothing"))
        self.story.append(f"asks {place}: {resolution.value}")

        async def end() -> None:
            begun = self.deciding.begin(HANDLE, T, resolution, ResolutionSource.PRODUCER)
            if begun is None:
                return
            op_offset = await begun.stored
            if begun.is_disputed:
                self.story.append(f"disputed {place}")
                await self.deciding.confirm(
                    HANDLE, T, resolution, op_offset, is_patient=self.dice.random() < 0.8
                )
            else:
                begun.check()

        answer = await answer_of(end())
        self.told[place] = resolution, answer
        self.story.append(f"told {place}: {answer}")

    def looks_for_roll_backs(self) -> None:
        """A prepare under its id would be dropped, so it is refused."""
        if self.first() is R and not self.first(self.read_to) and self.passed_s < _ROLLED_BACK_S:
            assert self.decisions.was_rolled_back(0, T), self.story

    # -- chance --

    async def live(self) -> None:
        asked: list[asyncio.Task[None]] = []
        for _ in range(self.dice.randrange(6, 24)):
            what = self.dice.choice(_HAPPENINGS)
            if what == "native" and not self.is_looked_at:
                self.ask_natively()
            elif what == "ask" and len(asked) < 5:
                asked.append(asyncio.create_task(self.ask(self.dice.choice([C, R]))))
            elif what == "lands":
                self._one_lands()
            elif what == "owner":
                self._owner()
            elif what == "others":
                self._others()
            for _ in range(self.dice.randrange(4)):
                await asyncio.sleep(0)
            self.looks_for_roll_backs()
        for _ in range(10_000):
            if not self.native_sent and all(one.done() for one in asked):
                break
            if not self._one_lands():
                self._reads_all()
            await asyncio.sleep(0)
        else:
            raise AssertionError("\n".join(["it does not end", *self.story]))
        await asyncio.gather(*asked)

    def _one_lands(self) -> bool:
        lands = [*[self.land_natively][: len(self.native_sent)], *[self.land][: len(self.sent)]]
        if lands:
            self.dice.choice(lands)()
        return bool(lands)

    def _others(self) -> None:
        """Time passes, in which others end transactions natively and by the loop."""
        passed_s = self.dice.choice([1, 3, 12, 70])
        self.passed_s += passed_s
        if passed_s > 60:
            self.is_looked_at = False  # nothing of it is on its way any more
            while self._one_lands():
                pass
        op_offset, read_to = len(self.log), self.op_read_to(0)
        self.log += [None]
        self.happened.append(("stores", -1 if read_to is None else read_to, passed_s, op_offset))
        now_s = asyncio.get_running_loop().time()
        self.decisions._lane(0).remembered.stored(op_offset, read_to, now_s)
        self.story.append(f"{passed_s} s pass, another is stored at {op_offset}")

    def _reads_all(self) -> None:
        self.is_owned, self.read_to = True, len(self.log)
        self.firsts.look_soon()

    def _owner(self) -> None:
        """It comes, reads on, or goes."""
        self.is_owned = self.dice.random() < 0.8
        self.read_to = self.dice.randrange(self.read_to, len(self.log) + 1)
        self.firsts.look_soon()
        self.story.append(
            f"the owner {'has read to' if self.is_owned else 'is away'} {self.read_to}"
        )

    def judge(self) -> None:
        first, story = self.first(), "\n".join([*self.story, str(self.log)])
        for resolution, answer in self.told:
            assert answer != "nothing", story
            assert answer != "yes" or resolution is first, story
            assert answer != "no" or resolution is not first, story
            assert answer != "unknown" or not self.is_certain, story


@pytest.mark.parametrize("share", range(10))
async def test_whichever_way_decisions_go_nobody_is_told_what_the_log_does_not_say(
    share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocketMQ's native ends told of the first decision only: 200 behind a stored contrary one,
    409 while what lay behind a refused one moved up, and an id that had been rolled back was taken.
    """
    monkeypatch.setattr(op_appends, "_SETTLED_S", 0.0)
    monkeypatch.setattr(first, "_LOGS_S", 1e6)  # a minute may pass here while the logs are read
    for number in range(400):
        seed = SEED or share * 400 + number + 1
        life = Life(random.Random(seed))
        life.story.append(f"SEED={seed}")
        await life.live()
        life.judge()
