"""Spans of traced transactions: linked, each as long as what it tells of, told once it is so."""

from __future__ import annotations

from typing import Any

import pytest

from halfhitch.adapters.memory import WriteFault
from halfhitch.core.model import Resolution
from halfhitch.service.checking.api import CheckOutcome, CheckReport
from halfhitch.service.owner import spans as under_test
from halfhitch.service.owner.spans import Span, Spans
from halfhitch.service.owner.turn import StepFailedError
from halfhitch.wire.trace_parent import SpanContext
from harness.audit import AUDIT, stories_of
from harness.spans import CALLER, PARENT, TRACE, SpanList
from harness.told import BEGAN_MS, ended
from harness.twin import INSTANCE, Twin, identity, turn_until_idle

CALLERS = SpanContext(bytes.fromhex(TRACE), bytes.fromhex(CALLER))
SHOP_E1: Any = ("shop", "E1")
TRACED: Any = [("traceparent", PARENT)]


def told(*, checks: int = 0, **more: Any) -> dict[str, Span]:
    sink = SpanList()
    spans = Spans(sink, "pod-9")
    for number in range(1, checks + 1):
        report = CheckReport(SHOP_E1, number, CheckOutcome.UNKNOWN, "pod-8", 0.48, "not yet")
        spans.answered(report, BEGAN_MS + 6_500)
    spans.ends(ended(**more), TRACED)
    assert sink.spans == [], "not before the end is durable"
    spans.confirmed(BEGAN_MS + 7_100)
    return {span.name.removeprefix("halfhitch "): span for span in sink.spans}


def test_the_prepare_is_in_the_callers_trace_and_the_rest_in_one_of_its_own_with_links() -> None:
    found = told(checks=1)
    prepare, waiting, check, forward = (
        found[name] for name in ("prepare", "waiting", "check", "forward")
    )
    assert (prepare.context.trace_id, prepare.parent_id) == (CALLERS.trace_id, CALLERS.span_id)
    assert prepare.links == [waiting.context]
    assert waiting.parent_id == b""
    assert waiting.context.trace_id != CALLERS.trace_id
    for inner in (check, forward):
        assert inner.context.trace_id == waiting.context.trace_id
        assert inner.parent_id == waiting.context.span_id
        assert prepare.context in inner.links
    assert list(waiting.links) == [prepare.context, CALLERS]
    assert len({span.context.span_id for span in found.values()}) == 4


def test_each_span_is_as_long_as_what_it_tells_of() -> None:
    found = told(checks=1)
    times = {name: (s.began_ms - BEGAN_MS, s.ended_ms - BEGAN_MS) for name, s in found.items()}
    assert times == {
        "prepare": (0, 5),
        "waiting": (5, 7_000),
        "check": (6_020, 6_500),
        "forward": (7_000, 7_100),
    }
    told_of = found["check"].attributes
    assert told_of["halfhitch.transaction_id"] == "E1"
    assert told_of["halfhitch.outcome"] == "unknown"
    assert told_of["halfhitch.reason"] == "not yet"
    assert found["forward"].attributes["messaging.destination.name"] == "orders"
    assert found["prepare"].attributes["halfhitch.instance"] == "pod-7"


def test_each_ending_has_its_span_and_clocks_that_differ_make_none_negative() -> None:
    for ending, name in ((0, "drop"), (-1, "park"), (-2, "park"), (2, "forward")):
        more: dict[str, Any] = {"decided_ms": 0, "why": "too_old: nobody"} if ending < 0 else {}
        assert name in told(ending=ending, **more)
    odd = told(decided_ms=BEGAN_MS - 50, stored_ms=BEGAN_MS - 100, marker="")
    assert all(span.began_ms <= span.ended_ms for span in odd.values())
    assert "prepare" not in told(life=1), "that was told in its first life"
    assert told(life=1)["waiting"].context != told()["waiting"].context


def test_what_is_known_of_checks_is_bounded_and_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "_CHECKED_MAX", 2)
    monkeypatch.setattr(under_test, "_CHECKS_MAX", 2)
    spans = Spans(SpanList(), "pod")
    for name in ("E1", "E1", "E1", "E2", "E3"):
        report = CheckReport(("shop", name), 1, CheckOutcome.UNKNOWN, "pod-8")  # type: ignore[arg-type]
        spans.answered(report, 1)
    assert [(i[1], len(c)) for i, c in spans._checked.items()] == [("E2", 1), ("E3", 1)]
    spans.ends(ended("E2"), None)
    assert [i[1] for i in spans._checked] == ["E3"]
    for _ in range(3):
        spans.answered(report, 1)
    assert len(spans._checked["shop", "E3"]) == 2  # type: ignore[index]


def owner_with_spans() -> tuple[Twin, Any, SpanList]:
    twin, sink = Twin(), SpanList()
    twin.kafka.create_topic(AUDIT, 2)
    stories = stories_of(
        twin.kafka, 0, observer=twin.observer, clock=twin.clock, spans=Spans(sink, INSTANCE)
    )
    return twin, twin.working_owner(stories=stories), sink


def test_an_owner_tells_of_commits_and_roll_backs_of_traced_callers() -> None:
    twin, owner, sink = owner_with_spans()
    for name, headers in (("T1", TRACED), ("T2", None), ("T3", TRACED)):
        twin.half(name, headers=headers)
    owner.checkback.report(CheckReport(identity("T1"), 1, CheckOutcome.UNKNOWN, "pod-3"))
    turn_until_idle(owner)
    twin.commit("T1")
    twin.commit("T2")
    twin.decide(Resolution.ROLLBACK, "T3")
    turn_until_idle(owner)
    names = [(s.name, s.attributes["halfhitch.transaction_id"]) for s in sink.spans]
    expected = ["prepare", "waiting", "check", "forward"]
    assert names[:4] == [(f"halfhitch {name}", "T1") for name in expected]
    assert [name for name, of in names[4:] if of == "T3"] == [
        "halfhitch prepare", "halfhitch waiting", "halfhitch drop",
    ]  # fmt: skip


def test_a_step_that_is_aborted_is_told_once_when_it_is_written() -> None:
    twin, owner, sink = owner_with_spans()
    twin.half("T1", headers=TRACED)
    twin.commit("T1")
    twin.kafka.faults.writes.append(WriteFault.ABORTED)
    with pytest.raises(StepFailedError):
        turn_until_idle(owner)
    assert sink.spans == []
    turn_until_idle(owner)
    assert len(sink.spans) == 3
