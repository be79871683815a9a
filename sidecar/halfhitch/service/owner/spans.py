"""What an owner tells about transactions whose caller is traced, as OpenTelemetry's spans.

Four kinds, each as long as what it tells of: `prepare` is a child of the caller's span, in his
trace. `waiting` (nobody has decided), `check` and `forward` (or `drop`, or `park`) are a trace of
their own, for they may come hours later; links lead from each to the other. Ids of spans are hashes
of the transaction's names, so nothing is kept for them, and owners that follow each other agree.

Only transactions whose first message has a `traceparent` with the sampled flag: the caller decides
what is traced. It is told once the end is durable. What this owner does not know any more (a check
of its predecessor's, the headers of a message that was dropped unread) is left out.

Used by the owner's thread. Not here: how spans are sent (adapters/otlp.py).
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Protocol

from halfhitch.core.model import Identity
from halfhitch.service.checking.api import CheckReport
from halfhitch.wire.half import Headers
from halfhitch.wire.story import Ended
from halfhitch.wire.trace_parent import SpanContext, sampled_parent

#: What is known of checks waits for the end; of so many transactions, and of so many checks each.
_CHECKED_MAX: Final = 10_000
_CHECKS_MAX: Final = 20
_LAST_WORDS: Final = {0: "drop", -1: "park", -2: "park"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What happened, from when to when."""

    name: str
    context: SpanContext
    parent_id: bytes = b""
    began_ms: int
    ended_ms: int
    attributes: dict[str, str | int]
    links: Sequence[SpanContext] = ()


class SpanSink(Protocol):
    """Who sends them. Any thread."""

    def put(self, spans: Sequence[Span]) -> None:
        """Take them; never waits, and may lose some."""
        ...


@dataclass(slots=True)
class _Checked:
    """A check, and what became of it."""

    report: CheckReport
    ended_ms: int


@dataclass(slots=True)
class Spans:
    """See the module's text."""

    sink: SpanSink
    instance: str
    _checked: OrderedDict[Identity, list[_Checked]] = field(default_factory=OrderedDict)
    _staged: list[tuple[Ended, SpanContext]] = field(default_factory=list)

    def answered(self, report: CheckReport, now_ms: int) -> None:
        """A check is over; it is told with the end."""
        checks = self._checked.setdefault(report.identity, [])
        if len(checks) < _CHECKS_MAX:
            checks.append(_Checked(report, now_ms))
        if len(self._checked) > _CHECKED_MAX:
            self._checked.popitem(last=False)

    def ends(self, ended: Ended, headers: Headers | None) -> None:
        """It ends in the step that is being made; `headers`: of its first message, if known."""
        parent = sampled_parent(headers)
        if parent is not None:
            self._staged.append((ended, parent))
        elif self._checked:
            self._checked.pop(_identity(ended), None)

    def forget(self) -> None:
        """The step was not written; its next try says the same again."""
        self._staged.clear()

    def confirmed(self, now_ms: int) -> None:
        """The step is durable."""
        if not self._staged:
            return
        staged, self._staged = self._staged, []
        spans: list[Span] = []
        for ended, parent in staged:
            checks = self._checked.pop(_identity(ended), [])
            spans += _spans_of(ended, parent, checks, self.instance, now_ms)
        self.sink.put(spans)


def _identity(ended: Ended) -> Identity:
    return ended.producer_group, ended.transaction_id  # type: ignore[return-value]


def _spans_of(
    ended: Ended, parent: SpanContext, checks: Sequence[_Checked], instance: str, now_ms: int
) -> list[Span]:
    trace_id = _hash(ended, "trace", 16)
    waiting = SpanContext(trace_id, _hash(ended, "waiting", 8))
    prepare = SpanContext(parent.trace_id, _hash(ended, "prepare", 8))
    decided_ms = max(ended.decided_ms or now_ms, ended.stored_ms)
    names: dict[str, str | int] = {
        "messaging.system": "kafka",
        "halfhitch.transaction_id": ended.transaction_id,
        "halfhitch.producer_group": ended.producer_group,
    }
    topics = sorted({target.topic for target in ended.targets})
    if len(topics) == 1:
        names["messaging.destination.name"] = topics[0]
    count: dict[str, str | int] = {"messaging.batch.message_count": ended.message_count}
    spans = []
    if ended.life == 0:
        born_ms = ended.born_ms if ended.born_ms >= 0 else ended.stored_ms
        spans.append(
            Span(
                name="halfhitch prepare",
                context=prepare,
                parent_id=parent.span_id,
                began_ms=born_ms,
                ended_ms=max(born_ms, ended.stored_ms),
                attributes=names | count | {"halfhitch.instance": ended.taken_by},
                links=[waiting],
            )
        )
    why = {"halfhitch.decided_by": ended.source, "halfhitch.reason": ended.reason}
    spans.append(
        Span(
            name="halfhitch waiting",
            context=waiting,
            began_ms=ended.stored_ms,
            ended_ms=decided_ms,
            attributes=names
            | {"halfhitch.check_count": ended.check_count}
            | {name: value for name, value in why.items() if value},
            links=[prepare, parent],
        )
    )
    spans += [_check(each, ended, waiting, prepare, names) for each in checks]
    word = _LAST_WORDS.get(ended.ending, "forward")
    parked = {"halfhitch.parked_because": ended.why} if ended.why else {}
    spans.append(
        Span(
            name=f"halfhitch {word}",
            context=SpanContext(trace_id, _hash(ended, word, 8)),
            parent_id=waiting.span_id,
            began_ms=decided_ms,
            ended_ms=max(decided_ms, now_ms),
            attributes=names | count | parked | {"halfhitch.instance": instance},
            links=[prepare, parent],
        )
    )
    return spans


def _check(
    checked: _Checked,
    ended: Ended,
    waiting: SpanContext,
    prepare: SpanContext,
    names: dict[str, str | int],
) -> Span:
    report = checked.report
    told = {"halfhitch.producer": report.by, "halfhitch.reason": report.reason}
    return Span(
        name="halfhitch check",
        context=SpanContext(waiting.trace_id, _hash(ended, f"check {report.number}", 8)),
        parent_id=waiting.span_id,
        began_ms=checked.ended_ms - int(report.since_s * 1000),
        ended_ms=checked.ended_ms,
        attributes=names
        | {"halfhitch.check_number": report.number, "halfhitch.outcome": report.outcome.value}
        | {name: value for name, value in told.items() if value},
        links=[prepare],
    )


def _hash(ended: Ended, what: str, size: int) -> bytes:
    """An id that is the same wherever it is made, and never all zero (for all practical ends)."""
    text = "\0".join((ended.producer_group, ended.transaction_id, str(ended.life), what))
    return blake2b(text.encode(), digest_size=size).digest()
