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
    half A [message=1]                     append a half message, message 0 unless told
    decide A commit [covers=2]             append a decision; `decide A rollback`
    garbage half | garbage op              append a record that cannot be read
    time +61s                              log time passes; it begins at 0
    read [half | op]                       the owner reads all there is: half log first, or one log
    expire                                 the owner drops early decisions, as far as it has read
    plan [messages=1] [park=A]             the owner plans a step; A is found to be undeliverable
    commit                                 the step's Kafka transaction commits: forwards, op
                                           records and watermarks, all at once. The ledger is not
                                           told.
    confirm                                ... and now it is; does `commit` first where needed
    abort                                  ... is surely aborted, and the ledger is told
    turn                                   read, plan, confirm
    crash                                  the owner is gone with its memory; an open step with it
    replay                                 another owner, from the stored watermarks: both logs, the
                                           half log first

What is printed for a step: `forward` (halves that become visible), `park` (those that go to the
parked topic), `done` (done marks), `lost` (conflicts: a contrary decision by its op offset, an
uncovered message by its half offset), `watermarks` (as the step stores them).

At the end of each block stand, after `=`: every transaction's standing, the ledger's counts, how
far both logs were read and which watermarks are stored, and the transactions that are visible. A
scenario fails, whatever its text says, when a transaction becomes visible twice, or when a half
lies below the stored half watermark without a done mark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from halfhitch.core.ledger import Ledger, Step
from halfhitch.core.model import (
    PARKED,
    ROLLED_BACK,
    ConflictKind,
    ConflictRead,
    DecisionRead,
    DoneRead,
    HalfOffset,
    HalfRead,
    Identity,
    OpOffset,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    Standing,
    TimestampMs,
    TransactionId,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from halfhitch.core.transaction import Transaction

_RULE = "----"
_RESOLUTIONS = {"commit": Resolution.COMMIT, "rollback": Resolution.ROLLBACK}
_STEP_BYTES_MAX = 1_000_000
_GROUP = ProducerGroup("orders")


class ScenarioError(Exception):
    """A command that cannot be carried out; the text says which line and why."""


@dataclass
class Block:
    """Comments and commands, and what is expected of them."""

    line: int
    commands: list[str]
    expected: list[str]


def parse(text: str) -> list[Block]:
    """Blocks of a scenario file."""
    blocks: list[Block] = []
    line = 1
    for part in text.split("\n\n"):
        lines = part.strip("\n").split("\n")
        if lines != [""]:
            if _RULE not in lines:
                raise ScenarioError(f"line {line}: a block without {_RULE}; put it behind commands")
            rule = lines.index(_RULE)
            first_line = line + len(part) - len(part.lstrip("\n"))
            blocks.append(Block(first_line, lines[:rule], lines[rule + 1 :]))
        line += part.count("\n") + 2
    return blocks


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
        parts.append("\n".join([*block.commands, _RULE, *printed]) + "\n")
    return "\n".join(parts)


def _identity(name: str) -> Identity:
    return _GROUP, TransactionId(name)


def _names(identities: Sequence[Identity]) -> str:
    return " ".join(dict.fromkeys(transaction_id for _, transaction_id in identities))


def _halves(half_offsets: Sequence[HalfOffset]) -> str:
    return " ".join(["half", *map(str, half_offsets)]) if half_offsets else "no half"


def _options(words: Sequence[str], **defaults: str) -> dict[str, str]:
    result = dict(defaults)
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in defaults:
            raise ScenarioError(f"{word!r} is not one of {', '.join(f'{n}=' for n in defaults)}")
        result[name] = value
    return result


def _ms(text: str) -> int:
    if not text.endswith("s") or not text[:-1].isdecimal():
        raise ScenarioError(f"{text!r} is not a time: write 61s")
    return int(text[:-1]) * 1000


_OpEvents = list[DecisionRead | DoneRead | ConflictRead]


class Scenario:
    """Both logs, what is visible, and the ledger of the owner of the moment."""

    def __init__(self) -> None:
        self._half_log: list[HalfRead | None] = []  # None: cannot be read
        self._op_log: list[_OpEvents | None] = []
        self._now_ms = 0
        self._stored = (0, 0)
        self._names: list[str] = []
        self._visible: list[str] = []
        self._parked: list[str] = []
        self._memory = (900_000, 200_000)
        self._ledger: Ledger | None = None
        self._step: Step | None = None
        self._step_is_committed = False
        self._expired_count = 0
        self._printed: list[str] = []
        self._commands: dict[str, Callable[[list[str]], None]] = {
            "memory": self._do_memory,
            "half": self._do_half,
            "decide": self._do_decide,
            "garbage": self._do_garbage,
            "time": self._do_time,
            "read": self._do_read,
            "expire": self._do_expire,
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

    # -- what clients and strangers append ------------------------------------------------------

    def _do_memory(self, words: list[str]) -> None:
        if self._half_log or self._op_log:
            raise ScenarioError("memory must be the first command")
        options = _options(words, horizon="900s", finished="200000")
        self._memory = (_ms(options["horizon"]), int(options["finished"]))
        self._take_over()

    def _do_half(self, words: list[str]) -> None:
        name, *rest = words
        index = int(_options(rest, message="0")["message"])
        half_offset = HalfOffset(len(self._half_log))
        stored_at_ms = TimestampMs(self._now_ms)
        self._half_log.append(HalfRead(half_offset, stored_at_ms, _identity(name), index, 100))
        self._meet(name)
        self._print(f"half {half_offset}: {name}" + (f" message {index}" if index else ""))

    def _do_decide(self, words: list[str]) -> None:
        name, resolution, *rest = words
        covers = int(_options(rest, covers="1")["covers"])
        op_offset = OpOffset(len(self._op_log))
        event = DecisionRead(
            op_offset,
            TimestampMs(self._now_ms),
            _identity(name),
            _RESOLUTIONS[resolution],
            covers,
            ResolutionSource.PRODUCER,
        )
        self._op_log.append([event])
        self._meet(name)
        covered = f", covers {covers}" if covers > 1 else ""
        self._print(f"op {op_offset}: {resolution} {name}{covered}")

    def _do_garbage(self, words: list[str]) -> None:
        (log,) = words
        if log == "half":
            place = len(self._half_log)
            self._half_log.append(None)
        else:
            place = len(self._op_log)
            self._op_log.append(None)
        self._print(f"{log} {place}: garbage")

    def _do_time(self, words: list[str]) -> None:
        (passed,) = words
        self._now_ms += _ms(passed.removeprefix("+"))
        self._print(f"time {self._now_ms // 1000}s")

    # -- what the owner does ----------------------------------------------------------------------

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
            if events is None:
                self._owned.pass_op(op_offset)
            else:
                for event in events:
                    self._owned.op(event)

    def _do_expire(self, words: list[str]) -> None:
        position = self._owned.positions[0]
        read = [half.stored_at_ms for half in self._half_log[:position] if half is not None]
        at_end = position == len(self._half_log)
        read_until_ms = self._now_ms if at_end else max(read, default=0)
        self._owned.expire_early(read_until_ms)
        expired = self._owned.unknown_decision_count - self._expired_count
        self._expired_count += expired
        self._print(f"expire: {expired} dropped")

    def _do_plan(self, words: list[str]) -> None:
        options = _options(words, messages="1000", park="")
        step = self._owned.plan(
            message_count_max=int(options["messages"]), bytes_max=_STEP_BYTES_MAX
        )
        if step is None:
            self._print("step: nothing to do")
            return
        if options["park"]:
            identities = [transaction.identity for transaction in step.transactions]
            step.park(identities.index(_identity(options["park"])))
        self._step, self._step_is_committed = step, False
        self._print_step(step)

    def _do_commit(self, words: list[str]) -> None:
        step = self._open_step
        if self._step_is_committed:
            raise ScenarioError("the step is committed already")
        for transaction, _ in self._outgoing(step):
            (self._parked if transaction.parked else self._visible).append(transaction.identity[1])
        done: _OpEvents = [
            DoneRead(
                OpOffset(len(self._op_log)),
                TimestampMs(self._now_ms),
                mark.identity,
                mark.ending,
                tuple(mark.half_offsets),
            )
            for mark in step.done
        ]
        self._append(f"done {_names([mark.identity for mark in step.done])}", done)
        lost: _OpEvents = [
            ConflictRead(
                OpOffset(len(self._op_log)),
                TimestampMs(self._now_ms),
                mark.identity,
                mark.kind,
                mark.losing_op_offset,
                tuple(mark.half_offsets),
            )
            for mark in step.conflicts
        ]
        self._append(f"lost {_names([mark.identity for mark in step.conflicts])}", lost)
        self._stored = (step.half_watermark, step.op_watermark)
        self._step_is_committed = True

    def _append(self, what: str, events: _OpEvents) -> None:
        if events:
            self._print(f"op {len(self._op_log)}: {what}")
            self._op_log.append(events)

    def _do_confirm(self, words: list[str]) -> None:
        if not self._step_is_committed:
            self._do_commit([])
        self._owned.confirm(self._open_step)
        self._step, self._step_is_committed = None, False

    def _do_abort(self, words: list[str]) -> None:
        if self._step_is_committed:
            raise ScenarioError("the step is committed: it cannot be aborted any more")
        self._owned.abort(self._open_step)
        self._step = None

    def _do_turn(self, words: list[str]) -> None:
        self._do_read([])
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

    # -- what is printed --------------------------------------------------------------------------

    def _print(self, line: str) -> None:
        self._printed.append(line)

    def _meet(self, name: str) -> None:
        if name not in self._names:
            self._names.append(name)

    @staticmethod
    def _outgoing(step: Step) -> list[tuple[Transaction, list[HalfOffset]]]:
        """The transactions that the step delivers, or parks, with their halves."""
        commits = [t for t in step.transactions if t.resolution is Resolution.COMMIT]
        return list(zip(commits, step.forwards, strict=True))

    def _print_step(self, step: Step) -> None:
        self._print("step:")
        for transaction, halves in self._outgoing(step):
            verb = "park" if transaction.parked else "forward"
            self._print(f"  {verb} {transaction.identity[1]}: {_halves(halves)}")
        for done in step.done:
            ending = {ROLLED_BACK: "rolled back", PARKED: "parked"}.get(
                done.ending, f"committed {done.ending}"
            )
            self._print(f"  done {done.identity[1]}, {ending}: {_halves(done.half_offsets)}")
        for lost in step.conflicts:
            where = (
                _halves(lost.half_offsets)
                if lost.kind is ConflictKind.UNCOVERED
                else f"op {lost.losing_op_offset}"
            )
            self._print(f"  lost {lost.identity[1]}, {lost.kind}: {where}")
        self._print(f"  watermarks half {step.half_watermark}, op {step.op_watermark}")

    def _print_state(self) -> None:
        if self._ledger is None:
            self._print("= nobody owns the partition")
        else:
            standings = {name: self._ledger.standing(_identity(name)) for name in self._names}
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

    # -- what no text can make right --------------------------------------------------------------

    def _check(self) -> None:
        delivered = self._visible + self._parked
        twice = sorted({name for name in delivered if delivered.count(name) > 1})
        if twice:
            raise ScenarioError(f"delivered twice: {' '.join(twice)}")
        done = {
            half_offset
            for events in self._op_log
            for event in events or ()
            if isinstance(event, DoneRead)
            for half_offset in event.half_offsets
        }
        for half_offset, half in enumerate(self._half_log[: self._stored[0]]):
            if half is not None and half_offset not in done:
                raise ScenarioError(f"half {half_offset} lies below the watermark and is not done")
