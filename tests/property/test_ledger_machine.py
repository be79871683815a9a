"""Any interleaving of clients, strangers, readers, steps and crashes, judged by a naive account.

The world (harness/ledger_world.py) drives the real ledger as its owner does; the judge
(harness/ledger_model.py) recomputes everything from the whole of both logs. After each step of the
machine the judge looks at what is there now, and, whenever watermarks moved, at what a successor
would make of it: replay from the committed watermarks, finish, compare again.

One rule is kept by the machine because the contract says so: an id is not used again once its
memory may be gone.
"""

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from halfhitch.core.check_rules import CheckRules
from halfhitch.core.model import Identity, ProducerGroup, Resolution, ResolutionSource
from harness.defaults import check_rules
from harness.ledger_model import Judge
from harness.ledger_world import LedgerWorld, identity_of

PRODUCER = ResolutionSource.PRODUCER
NAMES = st.integers(0, 5)
COUNTS = st.integers(1, 3)
#: What clients say; that something is given up is written by the policy alone.
RESOLUTIONS = st.sampled_from([Resolution.COMMIT, Resolution.ROLLBACK])
#: How many finished ones are remembered and for how long: the shorter, the closer the op watermark
#: follows what is needed.
MEMORY_LARGE = 1_000
MEMORIES = st.sampled_from([3, 9, MEMORY_LARGE])
#: Everything happens within what the machine lets pass.
RULES = check_rules(
    immunity_ms=30_000,
    interval_ms=60_000,
    count_max=2,
    age_ms_max=4_000_000,
    renew_ms=900_000,
    incomplete_ms=900_000,
)
HORIZONS_MS = st.sampled_from([2, 2_000, 900_000])


SIZES = st.sampled_from([1, 2, 1_000])
#: How many of each group may be checked now.
ROOMS = st.sampled_from([0, 1, 100])


def rooms(room: int) -> dict[ProducerGroup, int]:
    return {ProducerGroup("g"): room, ProducerGroup("h"): room} if room else {}


class LedgerMachine(RuleBasedStateMachine):
    """One half partition and all that may happen to it, but that nobody is ever asked."""

    check_rules: CheckRules | None = None

    def __init__(self) -> None:
        super().__init__()
        self.world = LedgerWorld(rules=self.check_rules)
        self.generation = 0
        self.judged = (-1, -1)
        self.payload_count = 0
        self.other_count = 0

    @initialize(
        finished_max=MEMORIES,
        horizon_ms=HORIZONS_MS,
        op_clock_ahead_ms=st.sampled_from([0, -20_000, 20_000]),
    )
    def begin(self, finished_max: int, horizon_ms: int, op_clock_ahead_ms: int) -> None:
        self.world = LedgerWorld(
            horizon_ms=horizon_ms,
            finished_max=finished_max,
            op_clock_ahead_ms=op_clock_ahead_ms,
            rules=self.check_rules,
        )

    # -- clients ----------------------------------------------------------------------------------

    def identity(self, name: int) -> Identity:
        return identity_of(f"t{name}-{self.generation}", "g" if name % 3 else "h")

    def may_be_prepared(self, identity: Identity) -> bool:
        """Ids are not used again when they may be forgotten."""
        judge = Judge(self.world)
        history = judge.histories.get(identity)
        if history is None or not any(m.op_offset < self.world.op_position for m in history.done):
            return True
        return judge.is_remembered(identity, self.world.op_position)

    @rule(name=NAMES, count=COUNTS, first=st.sampled_from([0, 0, 0, 1]), copies=st.integers(1, 2))
    def prepare(self, name: int, count: int, first: int, copies: int) -> None:
        """One to three messages; tried again they are stored twice; `first` 1 adds messages."""
        identity = self.identity(name)
        if not self.may_be_prepared(identity):
            return
        for index in list(range(first, first + count)) * copies:
            self.payload_count += 1
            self.world.prepare(identity, index, b"%d" % self.payload_count)

    @rule(
        name=NAMES,
        resolution=RESOLUTIONS,
        covered=COUNTS,
        times=st.integers(1, 2),
        source=st.sampled_from([PRODUCER, PRODUCER, ResolutionSource.CHECK]),
    )
    def decide(
        self, name: int, resolution: Resolution, covered: int, times: int, source: ResolutionSource
    ) -> None:
        for _ in range(times):
            self.world.decide(self.identity(name), resolution, covered, source=source)

    @rule(name=NAMES, covered=COUNTS)
    def prepare_and_commit(self, name: int, covered: int) -> None:
        self.prepare(name, covered, 0, 1)
        self.world.decide(self.identity(name), Resolution.COMMIT, covered)

    @rule(first=RESOLUTIONS, name=NAMES)
    def decide_contrarily(self, first: Resolution, name: int) -> None:
        """Two clients at once, who do not agree."""
        second = Resolution.ROLLBACK if first is Resolution.COMMIT else Resolution.COMMIT
        for resolution in (first, second):
            self.world.decide(self.identity(name), resolution)

    @rule(resolution=RESOLUTIONS, names=st.lists(NAMES, min_size=2, max_size=3))
    def decide_together(self, resolution: Resolution, names: list[int]) -> None:
        """Decisions of one moment share a record."""
        self.world.decide_together(resolution, [(self.identity(name), 1, ()) for name in names])

    @rule()
    def begin_with_new_ids(self) -> None:
        self.generation += 1

    # -- strangers ----------------------------------------------------------------------------

    @rule(log=st.sampled_from(["half", "op"]), value=st.sampled_from([None, b"", b"9,", b"x"]))
    def append_garbage(self, log: str, value: bytes | None) -> None:
        if log == "half":
            self.world.append_half(value, [("HALFHITCH", value)])
        else:
            self.world.append_op(value, [("TAGS", b"d"), ("HALFHITCH", b"1[")])

    @rule(log=st.sampled_from(["half", "op"]))
    def leave_gap(self, log: str) -> None:
        """A stranger's Kafka transaction was aborted: offsets that nobody will see."""
        logs = {"half": self.world.half_log, "op": self.world.op_log}
        logs[log].records.append(None)

    # -- time -----------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 1_000, 40_000, 61_000, 130_000, 900_000]))
    def pass_time(self, ms: int) -> None:
        """The half log is not read a whole horizon later than the op log."""
        world = self.world
        unread = world.half_log.read(world.half_position, 1)
        if unread and unread[0][1].stored_at_ms + world.horizon_ms // 2 <= world.now_ms + ms:
            if not self.is_idle:
                return
            world.read_half()
        world.pass_time(ms)

    # -- the owner --------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        return self.world.is_owned and self.world.step is None

    @precondition(lambda self: self.is_idle)
    @rule(count=st.sampled_from([1, 2, None]))
    def read_half(self, count: int | None) -> None:
        self.world.read_half(count)

    @precondition(lambda self: self.is_idle)
    @rule(count=st.sampled_from([1, 2, None]))
    def read_op(self, count: int | None) -> None:
        if self.world.finished_max < MEMORY_LARGE:
            self.world.read_half()  # nor later than so many others have ended
        self.world.read_op(count)

    @precondition(lambda self: self.is_idle)
    @rule()
    def expire_early(self) -> None:
        self.world.expire_early()

    @precondition(lambda self: self.is_idle)
    @rule(message_count_max=SIZES)
    def plan(self, message_count_max: int) -> None:
        self.world.plan(message_count_max)

    @precondition(lambda self: self.is_idle)
    @rule(message_count_max=SIZES)
    def write(self, message_count_max: int) -> None:
        self.world.write(message_count_max)

    @precondition(lambda self: self.is_idle)
    @rule(message_count_max=st.sampled_from([1, 1_000]))
    def turn(self, message_count_max: int) -> None:
        """What the owner does all day."""
        self.world.read_half()
        self.world.read_op()
        self.world.expire_early()
        self.world.write(message_count_max)

    @precondition(lambda self: self.is_idle)
    @rule(count=SIZES)
    def put_aside(self, count: int) -> None:
        self.world.put_aside(count)

    @precondition(lambda self: self.is_idle)
    @rule(count=SIZES)
    def renew(self, count: int) -> None:
        self.world.renew(count)

    @precondition(lambda self: self.is_idle)
    @rule()
    def take_back(self) -> None:
        self.world.take_back()

    @precondition(lambda self: self.is_idle)
    @rule(count=st.integers(1, 5), writes=st.booleans())
    def others_come_and_go(self, count: int, writes: bool) -> None:
        """A burst of other transactions: a backlog, or one after the other until it is gone.

        They push the finished ones out of the memory, and whatever waits to the end of the queue.
        """
        world = self.world
        for _ in range(count):
            self.other_count += 1
            identity = identity_of(f"o{self.other_count}")
            world.prepare(identity)
            world.decide(identity, Resolution.COMMIT)
        world.read_half()
        world.read_op()
        while writes and world.write(1):
            Judge(world).check_all()
            world.read_op()

    @precondition(lambda self: self.world.step is not None and not self.world.step_is_committed)
    @rule()
    def commit(self) -> None:
        self.world.commit()

    @precondition(lambda self: self.world.step is not None and self.world.step_is_committed)
    @rule()
    def confirm(self) -> None:
        self.world.confirm()

    @precondition(lambda self: self.world.step is not None and not self.world.step_is_committed)
    @rule()
    def abort(self) -> None:
        self.world.abort()

    @precondition(lambda self: self.world.is_owned)
    @rule()
    def crash(self) -> None:
        """At any point: also with a step of which nobody knows how it ended."""
        self.world.crash()

    @precondition(lambda self: not self.world.is_owned)
    @rule()
    def take_over(self) -> None:
        self.world.take_over()

    @rule()
    def trim(self) -> None:
        self.world.trim()

    # -- the judge ------------------------------------------------------------------------------

    @invariant()
    def account_is_right(self) -> None:
        Judge(self.world).check_all()

    @invariant()
    def successor_is_right(self) -> None:
        """Whoever takes over now finds all he needs, and does nothing twice."""
        world = self.world
        if world.watermarks == self.judged or (world.step and not world.step_is_committed):
            return
        assert world.watermarks[0] >= self.judged[0], "the half watermark went back"
        assert world.watermarks[1] >= self.judged[1], "the op watermark went back"
        self.judged = world.watermarks
        successor = world.successor()
        Judge(successor).check_all()
        successor.settle()
        Judge(successor).check_all()
        Judge(successor).check_settled()

    def teardown(self) -> None:
        world = self.world
        if world.step is not None:
            world.crash()
        if not world.is_owned:
            world.take_over()
        world.settle()
        note(f"half {world.half_log} op {world.op_log}")
        judge = Judge(world)
        judge.check_all()
        judge.check_settled()


class CheckBackMachine(LedgerMachine):
    """Time comes in: the undecided are checked, renewed, given up; what is told may be lost."""

    check_rules = RULES

    @precondition(lambda self: self.is_idle)
    @rule()
    def tick(self) -> None:
        self.world.tick()

    @precondition(lambda self: self.is_idle)
    @rule(message_count_max=SIZES, room=ROOMS)
    def plan_with_checks(self, message_count_max: int, room: int) -> None:
        self.world.plan(message_count_max, rooms(room))

    @precondition(lambda self: self.is_idle)
    @rule(message_count_max=SIZES, room=ROOMS)
    def write_with_checks(self, message_count_max: int, room: int) -> None:
        self.world.write(message_count_max, rooms(room))

    @precondition(lambda self: self.is_idle)
    @rule(
        message_count_max=st.sampled_from([1, 1_000]),
        room=ROOMS,
        ms=st.sampled_from([0, 2_000, 31_000, 70_000]),
    )
    def turn_with_checks(self, message_count_max: int, room: int, ms: int) -> None:
        """What the owner does all day."""
        self.pass_time(ms)
        self.world.tick()
        self.world.read_half()
        self.world.read_op()
        self.world.expire_early()
        self.world.write(message_count_max, rooms(room))

    @precondition(lambda self: self.is_idle and self.world.on_the_way)
    @rule(place=st.integers(0, 5), outcome=st.sampled_from(["counted", "lost", "undelivered"]))
    def report(self, place: int, outcome: str) -> None:
        """What became of a check. Some are never heard of again: the owner crashes before."""
        place = min(place, len(self.world.on_the_way) - 1)
        is_counted = outcome == "counted"
        self.world.report(place, is_counted=is_counted, is_lost=outcome == "lost")

    @precondition(lambda self: self.is_idle)
    @rule(name=NAMES, ends=st.sampled_from(["given up", "added to", "decided", "open"]))
    def check_until_the_end(self, name: int, ends: str) -> None:
        """One that nobody decides, through all its checks; what is left to chance is chance."""
        self.prepare(name, 2, 0, 1)
        for _ in range(RULES.count_max + 2):
            self.turn_with_checks(1_000, 100, 70_000)
            while self.world.on_the_way:
                self.world.report(0, is_counted=True, is_lost=False)
            Judge(self.world).check_all()
            if ends == "decided":
                self.decide(name, Resolution.COMMIT, 2, 1, PRODUCER)
        if ends in ("given up", "added to"):
            self.turn_with_checks(1_000, 100, 70_000)
            self.turn_with_checks(1_000, 100, 0)
        if ends == "added to":  # through an instance that does not know that it is given up
            self.prepare(name, 1, 2, 2)

    @precondition(lambda self: self.world.step is not None and not self.world.step_is_appended)
    @rule()
    def append_step(self) -> None:
        """Its records lie in the logs, others append behind them, and nobody reads past them."""
        self.world.append_step()


TestLedger = pytest.mark.timeout(900)(LedgerMachine.TestCase)
TestCheckBack = pytest.mark.timeout(900)(CheckBackMachine.TestCase)
