"""What instances say to one another about checks: the bodies of inbox messages, as JSON.

    question    ask your producers about this transaction, and report to `asker`
    report      what became of a check that you have asked me to deliver
    forget      the question is needless by now
    check_now   an operator wants this transaction checked at once; for its owner

An inbox may lose, repeat and delay; nothing here decides a transaction. Nor does it hold any
message or handle: who is asked to ask reads the halves itself (halves.py). Earlier releases said
`check`, with all of it; that kind is passed over.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from halfhitch.core.model import Identity, ProducerGroup, TransactionId
from halfhitch.service.checking.api import CheckOutcome, CheckReport
from halfhitch.service.reasons import kept_reason
from halfhitch.wire.check import Check
from halfhitch.wire.half import INDEX_MAX

QUESTION: Final = "question"
REPORT: Final = "report"
FORGET: Final = "forget"
CHECK_NOW: Final = "check_now"


class _Question(msgspec.Struct, omit_defaults=True):
    asker: str
    producer_group: str
    transaction_id: str
    half_partition: int
    half_offsets: list[int]
    number: int
    number_max: int
    age_ms: int
    born_ms: int | None = None
    instance: str = ""
    is_repeat: bool = False


class _Report(msgspec.Struct, omit_defaults=True):
    instance: str
    group: str
    id: str
    number: int
    outcome: CheckOutcome
    by: str = ""
    has_producers: bool = True
    reason: str | None = None


class _Forget(msgspec.Struct):
    asker: str
    group: str
    id: str


class _CheckNow(msgspec.Struct):
    group: str
    id: str
    partition: int


@dataclass(slots=True)
class RemoteReport:
    """A report from `instance`, and whether it has producers of the group at all."""

    instance: str
    report: CheckReport
    has_producers: bool


_encode = msgspec.json.Encoder().encode
_decode_question = msgspec.json.Decoder(_Question).decode
_decode_report = msgspec.json.Decoder(_Report).decode
_decode_forget = msgspec.json.Decoder(_Forget).decode
_decode_check_now = msgspec.json.Decoder(_CheckNow).decode


def question_body(asker: str, check: Check) -> bytes:
    """For another instance with live producers."""
    return _encode(
        _Question(
            asker,
            *check.identity,
            check.partition,
            list(check.half_offsets),
            check.number,
            check.number_max,
            check.age_ms,
            check.born_ms,
            check.instance,
            check.is_repeat,
        )
    )


def read_question(body: bytes) -> tuple[str, Check]:
    """Who asks, and what: without messages and handle. Raises ValueError."""
    line = _decode_question(body)
    if not line.asker or not 0 < len(line.half_offsets) <= INDEX_MAX + 1:
        raise ValueError("asker is empty, or the number of half offsets cannot be")
    check = Check(
        line.half_partition,
        _identity(line.producer_group, line.transaction_id),
        line.number,
        line.number_max,
        "",
        line.age_ms,
        line.instance,
        (),
        line.is_repeat,
        half_offsets=tuple(line.half_offsets),
        born_ms=line.born_ms,
    )
    return line.asker, check


def report_body(instance: str, report: CheckReport, *, has_producers: bool) -> bytes:
    """For the instance that asked."""
    group, transaction_id = report.identity
    return _encode(
        _Report(
            instance,
            group,
            transaction_id,
            report.number,
            report.outcome,
            report.by,
            has_producers,
            report.reason,
        )
    )


def read_report(body: bytes) -> RemoteReport:
    """Raises ValueError."""
    line = _decode_report(body)
    report = CheckReport(
        _identity(line.group, line.id),
        line.number,
        line.outcome,
        line.by,
        reason=kept_reason(line.reason),
    )
    return RemoteReport(line.instance, report, line.has_producers)


def forget_body(asker: str, identity: Identity) -> bytes:
    """For the instance that was asked to deliver the check."""
    return _encode(_Forget(asker, *identity))


def read_forget(body: bytes) -> tuple[str, Identity]:
    """Who had asked. Raises ValueError."""
    line = _decode_forget(body)
    return line.asker, _identity(line.group, line.id)


def check_now_body(partition: int, identity: Identity) -> bytes:
    """For the owner of the half partition."""
    return _encode(_CheckNow(*identity, partition))


def read_check_now(body: bytes) -> tuple[int, Identity]:
    """Raises ValueError."""
    line = _decode_check_now(body)
    return line.partition, _identity(line.group, line.id)


def _identity(group: str, transaction_id: str) -> Identity:
    return ProducerGroup(group), TransactionId(transaction_id)
