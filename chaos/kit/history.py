"""The ground truth: what applications asked for and what they were told, as they wrote it down.

Every application process appends JSON lines to a file of its own, before and after each call:

    {"op": "prepare" | "commit" | "rollback" | "add" | "check",
     "phase": "invoke" | "ok" | "fail" | "info",
     "id": transaction id, "group": producer group, "t_ms": wall clock, "call": number of the call,
     "messages": [{"topic", "key", "partition", "value_sha256", "value_bytes", "headers"}],
     "immunity_s": asked for by a prepare, "answer": of a check, "n": its number,
     "error": code of a fail or an info, "acked": of a check's answer}

`ok` was acknowledged, `fail` surely did not happen, `info` is known to nobody; a call without a
second line is an `info` too, for its process was killed. `invoke` of a check says that the question
came, its `ok` that the listener answered: whether the answer arrived is known only where `acked` is
true, otherwise the op log tells. `call` pairs the two lines of one call; without it an answer
belongs to the latest open call of its kind.

A line is one write to a file opened for appending: what a killed process had written stays, and
only its last line can be torn. This module judges nothing.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import time
from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from harness.checkers import Fate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

Identity = tuple[str, str]  # producer group, transaction id
UserHeaders = tuple[tuple[str, bytes | None], ...]


class Outcome(Enum):
    """Of one call."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


def wall_ms() -> int:
    """What every line is stamped with."""
    return time.time_ns() // 1_000_000


def sha256_of(value: bytes | None) -> str:
    """Of a payload; a null value is not an empty one."""
    return "null" if value is None else hashlib.sha256(value).hexdigest()


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode(errors="surrogateescape")


def _raw(text: str | None) -> bytes | None:
    return None if text is None else text.encode(errors="surrogateescape")


@dataclass(frozen=True, slots=True)
class Message:
    """What was to be sent, without its payload. `headers` None: not written down, not compared."""

    topic: str
    value_sha256: str
    value_bytes: int
    key: bytes | None = None
    partition: int | None = None
    headers: UserHeaders | None = None

    @classmethod
    def of(
        cls,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] | None = (),
    ) -> Message:
        """From what is handed to the client."""
        kept = None if headers is None else tuple((n, v) for n, v in headers)
        return cls(topic, sha256_of(value), len(value or b""), key, partition, kept)

    def to_json(self) -> dict[str, Any]:
        """As it stands in a line."""
        found: dict[str, Any] = {
            "topic": self.topic,
            "key": _text(self.key),
            "partition": self.partition,
            "value_sha256": self.value_sha256,
            "value_bytes": self.value_bytes,
        }
        if self.headers is not None:
            found["headers"] = [[name, _text(value)] for name, value in self.headers]
        return found

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Message:
        """From a line."""
        headers = found.get("headers")
        return cls(
            found["topic"],
            found["value_sha256"],
            found["value_bytes"],
            _raw(found.get("key")),
            found.get("partition"),
            None if headers is None else tuple((name, _raw(value)) for name, value in headers),
        )


# -- writing -------------------------------------------------------------------------------------


class Writer:
    """One file of one process; safe from many threads and tasks, for a line is one write."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        if os.fstat(self._file).st_size:
            os.write(self._file, b"\n\n")  # a killed predecessor may have torn its last line
        self._numbers = itertools.count(1)
        # A restarted process goes on in the same file: its calls must not take old numbers.
        self._run = f"{os.getpid()}-{wall_ms()}"

    def write(self, **line: Any) -> None:
        """One line, at once. For what the methods below do not cover."""
        line.setdefault("t_ms", wall_ms())
        raw = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        written = os.write(self._file, raw)
        if written != len(raw):
            raise OSError(f"only {written} of {len(raw)} bytes of the ground truth were written")

    def begin(
        self,
        op: str,
        identity: Identity,
        messages: Sequence[Message] = (),
        *,
        immunity_s: float | None = None,
        number: int | None = None,
    ) -> Call:
        """Before the call: writes `invoke`. Say afterwards what came of it."""
        more: dict[str, Any] = {}
        if messages:
            more["messages"] = [message.to_json() for message in messages]
        if immunity_s is not None:
            more["immunity_s"] = immunity_s
        call = Call(self, op, identity, f"{self._run}-{next(self._numbers)}", number)
        call.say("invoke", **more)
        return call

    def close(self) -> None:
        """Nothing more is written."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Call:
    """One call under way."""

    writer: Writer
    op: str
    identity: Identity
    number: str
    check_number: int | None = None

    def say(self, phase: str, **more: Any) -> None:
        """One line about this call."""
        group, transaction_id = self.identity
        if self.check_number is not None:
            more["n"] = self.check_number
        self.writer.write(
            op=self.op, phase=phase, id=transaction_id, group=group, call=self.number, **more
        )

    def ok(self, answer: str | None = None) -> None:
        """It was acknowledged; `answer` is what a check was answered, and it arrived."""
        self.say("ok", **({} if answer is None else {"answer": answer, "acked": True}))

    def fail(self, error: str, answer: str | None = None) -> None:
        """It surely did not happen."""
        self.say("fail", error=error, **({} if answer is None else {"answer": answer}))

    def info(self, error: str, answer: str | None = None) -> None:
        """Nobody knows: no answer came, or one that leaves it open."""
        self.say("info", error=error, **({} if answer is None else {"answer": answer}))


# -- reading -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that was meant to decide: a commit, a roll back, or the answer to a check."""

    wants: Fate  # COMMITTED or ROLLED_BACK
    source: str  # producer or check
    outcome: Outcome
    invoked_ms: int
    answered_ms: int | None = None
    error: str | None = None

    @property
    def said_ms(self) -> int:
        """When it was said: a check's answer comes long after the question, maybe."""
        is_answer = self.source == "check" and self.answered_ms is not None
        return self.answered_ms or 0 if is_answer else self.invoked_ms


@dataclass(frozen=True, slots=True)
class Checked:
    """A check as it came to a producer."""

    number: int
    at_ms: int
    process: str
    answer: str | None = None


@dataclass(slots=True)
class Truth:
    """All that the applications know of one transaction."""

    identity: Identity
    #: By index: an add whose answer was lost may have been repeated with another message.
    messages: dict[int, list[Message]] = field(default_factory=dict)
    prepared: Outcome | None = None  # the best that any of its prepares was told
    first_prepare_ms: int | None = None
    immunity_ms: int | None = None
    acked_count: int = 0  # messages that are surely stored
    acked_ms: dict[int, int] = field(default_factory=dict)  # by index: when that was known
    asked: list[Asked] = field(default_factory=list)
    checks: list[Checked] = field(default_factory=list)

    @property
    def fates(self) -> frozenset[Fate]:
        """What may have become of it, as far as its applications can know.

        A decision that was acknowledged lies in the op log, so it is not pending any more; of
        several that may lie there, the first in the log counts, which only the log can tell.
        """
        possible = {a.wants for a in self.asked if a.outcome is not Outcome.FAIL}
        if not any(a.outcome is Outcome.OK for a in self.asked):
            possible.add(Fate.PENDING)
        return frozenset(possible)

    @property
    def fate(self) -> Fate:
        """The only possible one, or UNKNOWN."""
        fates = self.fates
        return next(iter(fates)) if len(fates) == 1 else Fate.UNKNOWN

    @property
    def is_contested(self) -> bool:
        """Whether both a commit and a roll back may lie in the op log."""
        return {Fate.COMMITTED, Fate.ROLLED_BACK} <= self.fates

    def surely_committed(self, decided_ms: int | None = None) -> set[int]:
        """Messages that no commit of it may leave out, by index.

        Those whose storing was acknowledged before any application said COMMIT, or (where none
        did, but an operator or a policy) before `decided_ms`. A producer commits what its newest
        handle counts, and everybody else's commit means all that is there.
        """
        said_ms = [
            asked.said_ms
            for asked in self.asked
            if asked.wants is Fate.COMMITTED and asked.outcome is not Outcome.FAIL
        ]
        since_ms = min(said_ms, default=decided_ms)
        if since_ms is None:
            return set()
        return {index for index, acked_ms in self.acked_ms.items() if acked_ms <= since_ms}

    def acked(self, fate: Fate) -> list[Asked]:
        """The decisions of this kind that were acknowledged."""
        return [a for a in self.asked if a.wants is fate and a.outcome is Outcome.OK]


_WANTS = {
    "commit": Fate.COMMITTED,
    "rollback": Fate.ROLLED_BACK,
    "COMMIT": Fate.COMMITTED,
    "ROLLBACK": Fate.ROLLED_BACK,
}
_BEST = (Outcome.FAIL, Outcome.INFO, Outcome.OK)
_LINE_BEGINS = b'{"op":'


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of one process. Where it was killed, one may be torn; that one is passed over.

    Torn is what stands at the end, or before the empty line that a second `Writer` begins with, or
    glued to the first line of a successor without one. Anything else unreadable is an error.
    """
    lines = path.read_bytes().split(b"\n")
    found = []
    for place, raw in enumerate(lines):
        if not raw:
            continue
        try:
            found.append(json.loads(raw))
        except ValueError:
            is_torn = place == len(lines) - 1 or not lines[place + 1]
            glued = raw.rfind(_LINE_BEGINS)
            if glued > 0:
                found.append(json.loads(raw[glued:]))
            elif not is_torn:
                raise ValueError(f"{path}: line {place + 1} is no JSON: {raw[:80]!r}") from None
    return found


def read_history(paths: Iterable[Path]) -> dict[Identity, Truth]:
    """Folds the files of all processes."""
    truths: dict[Identity, Truth] = {}
    calls = [call for path in sorted(paths) for call in _calls(path)]
    for call in sorted(calls, key=lambda call: call.invoke.get("t_ms", 0)):
        identity = (str(call.invoke["group"]), str(call.invoke["id"]))
        _fold(truths.setdefault(identity, Truth(identity)), call)
    return truths


@dataclass(slots=True)
class _Pair:
    process: str
    invoke: dict[str, Any]
    end: dict[str, Any] | None = None

    @property
    def outcome(self) -> Outcome:
        return Outcome.INFO if self.end is None else Outcome(self.end["phase"])


def _calls(path: Path) -> list[_Pair]:
    pairs: list[_Pair] = []
    waiting: dict[tuple[Any, ...], list[_Pair]] = defaultdict(list)
    for line in read_lines(path):
        name = (line["op"], line["group"], line["id"], line.get("call"), line.get("n"))
        if line["phase"] == "invoke":
            pairs.append(_Pair(path.name, line))
            waiting[name].append(pairs[-1])
            continue
        if not waiting[name]:
            raise ValueError(f"{path}: an answer to a call that was never made: {line}")
        waiting[name].pop().end = line  # the older ones were killed
    return pairs


def _fold(truth: Truth, call: _Pair) -> None:
    op = call.invoke["op"]
    if op in ("prepare", "add"):
        _fold_messages(truth, call)
        return
    end = call.end or {}
    answer = end.get("answer") or call.invoke.get("answer")
    if op == "check":
        number = int(call.invoke.get("n") or end.get("n") or 0)
        truth.checks.append(Checked(number, call.invoke["t_ms"], call.process, answer))
    wants = _WANTS.get(str(answer) if op == "check" else op)
    if wants is not None:
        outcome = call.outcome
        if op == "check" and outcome is Outcome.OK and not end.get("acked"):
            outcome = Outcome.INFO
        truth.asked.append(
            Asked(
                wants,
                "check" if op == "check" else "producer",
                outcome,
                call.invoke["t_ms"],
                end.get("t_ms"),
                end.get("error"),
            )
        )


def _fold_messages(truth: Truth, call: _Pair) -> None:
    messages = [Message.from_json(m) for m in call.invoke.get("messages", [])]
    first = 0 if call.invoke["op"] == "prepare" else truth.acked_count
    for index, message in enumerate(messages, first):
        known = truth.messages.setdefault(index, [])
        if message not in known:
            known.append(message)
    if call.outcome is Outcome.OK:
        truth.acked_count = max(truth.acked_count, first + len(messages))
        acked_ms = (call.end or call.invoke)["t_ms"]
        for index in range(first, first + len(messages)):
            truth.acked_ms[index] = min(acked_ms, truth.acked_ms.get(index, acked_ms))
    if call.invoke["op"] == "prepare":
        t_ms = call.invoke["t_ms"]
        if truth.first_prepare_ms is None or t_ms < truth.first_prepare_ms:
            truth.first_prepare_ms = t_ms
        immunity_s = call.invoke.get("immunity_s")
        if immunity_s is not None:
            truth.immunity_ms = int(immunity_s * 1000)
        truth.prepared = max(truth.prepared or Outcome.FAIL, call.outcome, key=_BEST.index)
