"""Two records of one case side by side: what differs, whether it is meant, and the table of it.

Pure: records in, verdicts and text out. Fields that end in Ms are times and are never compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.cases import CASES, Case, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Observed = Mapping[str, Any]
    # By case, then by server ("rocketmq", "halfhitch").
    Records = Mapping[str, Mapping[str, Observed]]

_ORDER = [Verdict.EQUAL, Verdict.ELSE, Verdict.BETTER, Verdict.WORSE]


@dataclass(frozen=True, slots=True)
class Compared:
    """One case: the verdict, the reasons, and whatever differs without being meant."""

    verdict: Verdict
    reasons: tuple[str, ...]
    unexplained: tuple[str, ...]


def compared_fields(observed: Observed) -> set[str]:
    """The fields of a record that are no times."""
    return {name for name in observed if not name.endswith("Ms")}


def compare(case: Case, rocketmq: Observed, halfhitch: Observed) -> Compared:
    """A field that is missing on one side differs."""
    verdicts, reasons, unexplained = [Verdict.EQUAL], [], []
    for name in sorted(compared_fields(rocketmq) | compared_fields(halfhitch)):
        if name in rocketmq and name in halfhitch and rocketmq[name] == halfhitch[name]:
            continue
        difference = case.differences.get(name)
        if difference is None or name not in rocketmq or name not in halfhitch:
            unexplained.append(
                f"{name}: {rocketmq.get(name, 'nothing')!r} and {halfhitch.get(name, 'nothing')!r}"
            )
            verdicts.append(Verdict.WORSE)
        else:
            verdicts.append(difference.verdict)
            if difference.reason not in reasons:
                reasons.append(difference.reason)
    return Compared(max(verdicts, key=_ORDER.index), tuple(reasons), tuple(unexplained))


def changes(case: Case, before: Observed, now: Observed) -> Iterator[str]:
    """What differs between two records of one server, but for what varies from run to run."""
    for name in sorted(compared_fields(before) | compared_fields(now)):
        if name not in case.varies and before.get(name) != now.get(name):
            yield f"{name}: was {before.get(name, 'nothing')!r}, is {now.get(name, 'nothing')!r}"


def findings(records: Records) -> Iterator[str]:
    """Whatever keeps these records from being a good comparison."""
    for name, sides in records.items():
        if name not in CASES:
            yield f"{name}: nobody says what this case is (cases.py)"
        elif set(sides) != {"rocketmq", "halfhitch"}:
            yield f"{name}: observed on {', '.join(sides) or 'no server'} only"
        else:
            compared = compare(CASES[name], sides["rocketmq"], sides["halfhitch"])
            yield from (f"{name}: {what}" for what in compared.unexplained)


def verdicts(records: Records) -> dict[str, Verdict]:
    """Of every case that was seen on both servers."""
    return {
        name: compare(CASES[name], sides["rocketmq"], sides["halfhitch"]).verdict
        for name, sides in records.items()
        if set(sides) == {"rocketmq", "halfhitch"}
    }


def rows(records: Records) -> Iterator[str]:
    """The lines of the table, in the order of the cases."""
    yield "| case | RocketMQ | Half Hitch | |"
    yield "|---|---|---|---|"
    for name, case in CASES.items():
        sides = records.get(name, {})
        if set(sides) != {"rocketmq", "halfhitch"}:
            continue
        rocketmq, halfhitch = sides["rocketmq"], sides["halfhitch"]
        compared = compare(case, rocketmq, halfhitch)
        why = "; ".join([*compared.reasons, *compared.unexplained])
        if compared.verdict is Verdict.EQUAL:
            yield f"| {case.title} | {text(rocketmq)} | the same | equal |"
        else:
            yield (
                f"| {case.title} | {text(rocketmq)} | {text(halfhitch, unlike=rocketmq)} "
                f"| **{compared.verdict.value}**: {_cell(why)} |"
            )


def text(observed: Observed, unlike: Observed | None = None) -> str:
    """A record in words, for a cell of the table; without times and what `unlike` has as well."""
    fields = sorted(compared_fields(observed))
    shown = [name for name in fields if unlike is None or unlike.get(name) != observed[name]]
    words = [f"{name}: {_value(observed[name])}" for name in shown]
    return _cell("; ".join([*words, *(["else the same"] if len(shown) < len(fields) else [])]))


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(_counted(name, one) for name, one in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(_value(one) for one in value) or "none"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "none" if value is None else str(value)


def _counted(name: str, value: Any) -> str:
    """How often something was seen, or a property and its value."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{_value(value)} x {name}"
    return f"{name} = {_value(value)}"


def _cell(words: str) -> str:
    return words.replace("|", "\\|").replace("\n", " ")
