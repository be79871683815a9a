"""Behaviour of the ledger as text that can be read, run, and written anew.

A scenario file is a list of blocks, each with a blank line behind it:

    # why this is done                            comments stand before commands
    half A                                        commands, one a line
    decide A commit
    ----
    half 0: A                                     what they did, and what is true afterwards
    op 0: commit A

Transactions have one-word names. Logs are lists: the first half record is `half 0`, the first op
record `op 0`. (Kafka's end markers, which take an offset each, are left out: the numbers would be
harder to follow. harness/ledger_world.py has them.) Commands:

    memory horizon=900s finished=200000    only as the first one: how much the ledger remembers
    rules immunity=6s interval=60s checks=15 age=72h renew=1h incomplete=900s policy=park
                                           only before the first half: how often is checked. The
                                           policy says what becomes of one that is given up: park,
                                           commit or rollback. (No jitter, no backoff.)
    half A [message=1] [immunity=30s] [group=payments]
                                           append a half message, message 0 unless told
    decide A commit [covers=2]             append a decision; `decide A rollback`, `decide A park`
    garbage half | garbage op              append a record that cannot be read
    time +61s                              time passes, in the logs and for the owner; it begins at
                                           0. Units: ms, s, h
    calendar +192h                         by the calendar it is so much later than the owner's
                                           scale says: for so long nobody owned the partition, and
                                           nothing was written
    producers [orders=2 ...]               from now on so many of each group may be asked in each
                                           step; nobody is there to be asked at first
    read [half | op]                       the owner reads all there is: half log first, or one log
    tick                                   the owner looks at its clock
    expire                                 the owner drops early decisions, as far as it has read
    report A unknown [number=1]            what became of a check, of the last number unless told:
                                           unknown (asked, and no decision came of it), lost (on its
                                           way) or undelivered (nobody took it)
    hasten A                               somebody wants A checked now
    aside A B                              a target of theirs is away: no step takes them
    back A B                               it is there again
    plan [messages=1] [park=A]             the owner gives up who is to be given up, and plans a
                                           step; A is found to be undeliverable
    commit                                 the step's Kafka transaction commits: copies, forwards,
                                           op records and watermarks, all at once. The ledger is not
                                           told.
    confirm                                ... and now it is, and checks are sent; does `commit`
                                           first where needed
    abort                                  ... is surely aborted, and the ledger is told
    turn                                   tick, read, plan, confirm
    resume A                               an operator puts A back, from the parked topic
    crash                                  the owner is gone with its memory; an open step with it
    replay                                 another owner, from the stored watermarks: both logs, the
                                           half log first. It has not looked at its clock yet.

What is printed for a step: `forward` (halves that become visible), `park` (those that go to the
parked topic), `check` and `renew` (those that are appended anew), `done` (done marks), `lost`
(conflicts: a contrary decision by its op offset, an uncovered message by its half offset), `note`
(a decision that goes beside what is parked), `watermarks` (as the step stores them). `ask` is a
check that is sent.

At the end of each block stand, after `=`: every transaction's standing, the ledger's counts, how
far both logs were read and which watermarks are stored, the transactions that are visible, and how
far the check-back of those is that have been undecided for a second. A scenario fails, whatever its
text says, when
- a transaction becomes visible twice,
- a half lies below the stored half watermark without a done mark,
- one is checked before its immunity is over,
- a check number is written before the one before it was reported as delivered (or lost thrice), or
  above the maximum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from halfhitch.core.ledger import Ledger, Step
from halfhitch.core.model import ConflictKind, ProducerGroup, ResolutionSource
from halfhitch.core.standing import Standing
from harness.defaults import check_rules
from harness.scenario_text import (
    ENDINGS,
    RULE,
    WORDS,
    ScenarioError,
    duration_ms,
    halves_of,
    options_of,
    parse,
    seconds,
)
from harness.scenario_world import LOST_MAX, World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from halfhitch.core.transaction import Transaction

__all__ = ["Scenario", "ScenarioError", "parse", "rewritten"]

_STEP_BYTES_MAX = 1_000_000
#: An owner looks at its clock at least so often.
_LOOKS_MS = 100


def rewritten(text: str) -> str:
    """The same commands with what they do now."""
    scenario = Scenario()
    parts: list[str] = []
    for block in parse(text):
        try:
            printed = scenario.run(block.commands)
        except Exception as error:
            error.add_note(f"in the block that begins at line {block.line}")
            raise
        parts.append("\n".join([*block.commands, RULE, *printed]) + "\n")
    return "\n".join(parts)


class Scenario(World):
    """The world, and the ledger of the owner of the moment."""

    def __init__(self) -> None:
        super().__init__()
        self._producers: dict[str, int] = {}
        self._policy = "park"
        self._memory = (900_000, 200_000)
        self._ledger: Ledger | None = None
        self._step: Step | None = None
        self._step_is_committed = False
        self._expired_count = 0
        self._calendar_ahead_ms = 0
        self._commands: dict[str, Callable[[list[str]], None]] = {
            "memory": self._do_memory,
            "rules": self._do_rules,
            "half": self._do_half,
            "decide": self._do_decide,
            "garbage": self._do_garbage,
            "time": self._do_time,
            "calendar": self._do_calendar,
            "producers": self._do_producers,
            "tick": self._do_tick,
            "report": self._do_report,
            "hasten": self._do_hasten,
            "resume": self._do_resume,
            "read": self._do_read,
            "expire": self._do_expire,
            "aside": self._do_aside,
            "back": self._do_back,
            "plan": self._do_plan,
            "commit": self._do_commit,
            "confirm": self._do_confirm,
            "abort": self._do_abort,
            "turn": self._do_turn,
            "crash": self._do_crash,
            "replay": self._do_replay,
        }
        self._take_over()

    def run(self, commands: Sequence[str]) -> list[str]:
        """Carry out one block; what is to be printed."""
        self._printed = []
        for line in commands:
            if line.startswith("#"):
                continue
            name, *words = line.split() or [""]
            command = self._commands.get(name)
            if command is None:
                raise ScenarioError(f"{line!r}: there is no such command, see harness/scenario.py")
            command(words)
        self._print_state()
        self._check()
        return self._printed

    # -- what the owner does --------------------------------------------------------------------

    def _do_memory(self, words: list[str]) -> None:
        if self._half_log or self._op_log:
            raise ScenarioError("memory must be the first command")
        options = options_of(words, horizon="900s", finished="200000")
        self._memory = (duration_ms(options["horizon"]), int(options["finished"]))
        self._take_over()

    def _do_rules(self, words: list[str]) -> None:
        if self._half_log or self._op_log:
            raise ScenarioError("rules must come before the first record")
        options = options_of(
            words, immunity="6s", interval="60s", checks="15", age="72h", renew="1h",
            incomplete="900s", policy="park",
        )  # fmt: skip
        self._rules = check_rules(
            immunity_ms=duration_ms(options["immunity"]),
            interval_ms=duration_ms(options["interval"]),
            jitter=0.0,
            count_max=int(options["checks"]),
            age_ms_max=duration_ms(options["age"]),
            renew_ms=duration_ms(options["renew"]),
            incomplete_ms=duration_ms(options["incomplete"]),
        )
        self._policy = options["policy"]
        self._take_over()

    def _do_read(self, words: list[str]) -> None:
        if self._step is not None:
            raise ScenarioError("nothing is read while a step is out: confirm or abort it")
        if words in ([], ["half"]):
            self._read_half()
        if words in ([], ["op"]):
            self._read_op()

    def _read_half(self) -> None:
        for half_offset in range(self._owned.positions[0], len(self._half_log)):
            half = self._half_log[half_offset]
            if half is None:
                self._owned.pass_half(half_offset)
            else:
                self._owned.half(half)

    def _read_op(self) -> None:
        for op_offset in range(self._owned.positions[1], len(self._op_log)):
            events = self._op_log[op_offset]
            for event in events or ():
                self._owned.op(event)
            if not events:
                self._owned.pass_op(op_offset)

    def _do_tick(self, words: list[str]) -> None:
        self._look_at_clock()
        self._end_incomplete()

    def _look_at_clock(self) -> None:
        now_ms, before_ms = self._stored_at(), self._owned.checks.now_ms
        ahead_ms = self._calendar_ahead_ms
        if before_ms is not None and now_ms - before_ms > _LOOKS_MS:
            # As an owner does all the time.
            self._owned.tick(now_ms - _LOOKS_MS, now_ms - _LOOKS_MS + ahead_ms)
        self._owned.tick(now_ms, now_ms + ahead_ms)

    def _end_incomplete(self) -> None:
        if self._owned.positions[0] == len(self._half_log):
            self._owned.end_incomplete()

    def _do_calendar(self, words: list[str]) -> None:
        (ahead,) = words
        self._calendar_ahead_ms = duration_ms(ahead.removeprefix("+"))

    def _do_report(self, words: list[str]) -> None:
        name, outcome, *rest = words
        if outcome not in ("unknown", "lost", "undelivered"):
            raise ScenarioError(f"{outcome!r} is not one of unknown, lost, undelivered")
        life = self._lives[name]
        number = int(options_of(rest, number=str(life.number))["number"])
        life.lost = life.lost + 1 if outcome == "lost" else 0
        if outcome == "unknown" or life.lost >= LOST_MAX:
            life.delivered, life.lost = max(life.delivered, number), 0
        transaction = self._owned.find(self._identity(name))
        if transaction is not None:
            self._owned.checks.reported(
                transaction,
                number,
                outcome,
                "somebody",
                is_counted=outcome == "unknown",
                is_lost=outcome == "lost",
            )

    def _do_hasten(self, words: list[str]) -> None:
        (name,) = words
        transaction = self._owned.find(self._identity(name))
        if transaction is None or not self._owned.checks.hasten(transaction):
            self._print(f"{name} cannot be checked")
            return
        self._lives[name].immunity_ms = 0  # whoever asks for it means now

    def _do_expire(self, words: list[str]) -> None:
        position = self._owned.positions[0]
        read = [half.stored_at_ms for half in self._half_log[:position] if half is not None]
        at_end = position == len(self._half_log)
        read_until_ms = self._stored_at() if at_end else max(read, default=0)
        self._owned.expire_early(read_until_ms)
        expired = self._owned.unknown_decision_count - self._expired_count
        self._expired_count += expired
        self._print(f"expire: {expired} dropped")

    def _do_aside(self, words: list[str]) -> None:
        self._owned.ready.put_aside(self._found(words))

    def _do_back(self, words: list[str]) -> None:
        self._owned.ready.take_back(self._found(words))

    def _found(self, names: list[str]) -> list[Transaction]:
        found = [self._owned.find(self._identity(name)) for name in names]
        return [transaction for transaction in found if transaction is not None]

    def _do_plan(self, words: list[str]) -> None:
        options = options_of(words, messages="1000", park="")
        self._give_up()
        rooms = {ProducerGroup(group): count for group, count in self._producers.items()}
        for again in self._owned.checks.again(rooms):
            self._ask(again.identity[1], again.check_count)
        step = self._owned.plan(
            message_count_max=int(options["messages"]), bytes_max=_STEP_BYTES_MAX, rooms=rooms
        )
        if step is None:
            self._print("step: nothing to do")
            return
        if options["park"]:
            identities = [transaction.identity for transaction in step.transactions]
            step.park(identities.index(self._identity(options["park"])))
        self._step, self._step_is_committed = step, False
        self._print_step(step)
        for order in step.copies:
            if order.is_check:
                self._check_number(order.transaction.identity[1], order.number)

    def _give_up(self) -> None:
        for transaction in self._owned.checks.given_up(100):
            name, covers = transaction.identity[1], transaction.messages()[-1][0] + 1
            self._append_decision(name, self._policy, covers, ResolutionSource.POLICY)
            self._owned.checks.postpone(transaction)

    def _ask(self, name: str, number: int) -> None:
        self._print(f"ask {name}: number {number}")

    def _do_commit(self, words: list[str]) -> None:
        step = self._open_step
        if self._step_is_committed:
            raise ScenarioError("the step is committed already")
        self._store(step)
        self._step_is_committed = True

    def _do_confirm(self, words: list[str]) -> None:
        if not self._step_is_committed:
            self._do_commit([])
        self._owned.confirm(self._open_step)
        self._step, self._step_is_committed = None, False
        for name, number in self._asking:
            self._ask(name, number)
        self._asking = []

    def _do_abort(self, words: list[str]) -> None:
        if self._step_is_committed:
            raise ScenarioError("the step is committed: it cannot be aborted any more")
        self._owned.abort(self._open_step)
        self._step = None

    def _do_turn(self, words: list[str]) -> None:
        self._look_at_clock()
        self._do_read([])
        self._end_incomplete()
        self._do_plan(words)
        if self._step is not None:
            self._do_confirm([])

    def _do_crash(self, words: list[str]) -> None:
        if self._step is not None and not self._step_is_committed:
            self._print("the open step is lost")
        self._ledger, self._step, self._step_is_committed = None, None, False

    def _do_replay(self, words: list[str]) -> None:
        if self._ledger is not None:
            raise ScenarioError("somebody owns the partition: crash first")
        half, op = self._stored
        self._take_over()
        self._read_half()
        self._read_op()
        self._print(f"replay: {len(self._half_log) - half} half, {len(self._op_log) - op} op")

    def _take_over(self) -> None:
        horizon_ms, finished_max = self._memory
        half_position, op_position = self._stored
        self._expired_count = 0
        self._ledger = Ledger(
            half_position=half_position,
            op_position=op_position,
            horizon_ms=horizon_ms,
            finished_max=finished_max,
            rules=self._rules,
        )

    @property
    def _owned(self) -> Ledger:
        if self._ledger is None:
            raise ScenarioError("nobody owns the partition: replay first")
        return self._ledger

    @property
    def _open_step(self) -> Step:
        if self._step is None:
            raise ScenarioError("there is no step: plan first")
        return self._step

    # -- what is printed ------------------------------------------------------------------------

    def _print_step(self, step: Step) -> None:
        self._print("step:")
        for transaction, halves in self._outgoing(step):
            verb = "forward" if transaction.ending > 0 else "park"
            self._print(f"  {verb} {transaction.identity[1]}: {halves_of(halves)}")
        for order in step.copies:
            verb = f"check {order.number}" if order.is_check else "renew"
            halves = [o for _, o in order.transaction.messages()]
            self._print(f"  {verb} {order.transaction.identity[1]}: {halves_of(halves)}")
        for done in step.all_done:
            ending = ENDINGS.get(done.ending, f"committed {done.ending}")
            self._print(f"  done {done.identity[1]}, {ending}: {halves_of(done.half_offsets)}")
        for lost in step.conflicts:
            where = (
                halves_of(lost.half_offsets)
                if lost.kind is ConflictKind.UNCOVERED
                else f"op {lost.losing_op_offset}"
            )
            self._print(f"  lost {lost.identity[1]}, {lost.kind}: {where}")
        for note in step.notes:
            word = WORDS[note.resolution]
            self._print(f"  note {note.identity[1]}, {word}: op {note.op_offset}")
        self._print(f"  watermarks half {step.half_watermark}, op {step.op_watermark}")

    def _print_state(self) -> None:
        if self._ledger is None:
            self._print("= nobody owns the partition")
        else:
            standings = {name: self._ledger.standing(self._identity(name)) for name in self._names}
            known = [
                f"{name} {standing.value.replace('_', ' ')}"
                for name, standing in standings.items()
                if standing is not Standing.UNKNOWN
            ]
            self._print(f"= {', '.join(known) or 'no transaction is known'}")
            pending, decided, early, finished = self._ledger.counts
            self._print(
                f"= {pending} pending, {decided} decided, {early} early, {finished} finished"
            )
            (half, op), (stored_half, stored_op) = self._ledger.positions, self._stored
            self._print(
                f"= read to half {half}, op {op}; stored half {stored_half}, op {stored_op}"
            )
        parked = f"; parked: {' '.join(self._parked)}" if self._parked else ""
        self._print(f"= visible: {' '.join(self._visible) or 'none'}{parked}")
        if self._ledger is not None:
            for name in self._names:
                self._print_checks(name, self._ledger)

    def _print_checks(self, name: str, ledger: Ledger) -> None:
        transaction = ledger.find(self._identity(name))
        if transaction is None or transaction.resolution is not None or not transaction.is_told:
            return
        number = transaction.check_count
        how = "delivered" if transaction.is_delivered else "sent"
        checked = f"check {number} {how}" if number else "not checked"
        if transaction.missing_count:
            then = "on its way"
        elif transaction.is_waiting:
            then = "waits"
        else:
            left_ms = transaction.due_ms - self._stored_at()
            then = f"next in {seconds(left_ms)}" if left_ms > 0 else "due"
        self._print(f"= {name}: {checked}, {then}")
