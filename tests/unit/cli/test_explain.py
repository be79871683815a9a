"""What `tx explain` says of a transaction."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from halfhitch_cli import explain
from harness.fake_operations import FakeOperations, parked, undecided

if TYPE_CHECKING:
    pass


def test_explain_tells_why_what_next_and_what_to_do(run: Any) -> None:
    code, out, _ = run("tx", "explain", "T1")
    assert code == 0
    for words in (
        "T1 of group shop: 2 messages for orders, points, prepared 1m35s ago",
        "Check 3 of 15 has reached a producer (shop-1); its answer: it cannot say yet.",
        "The next check is due in 42s.",
        "or when it is 3d00h old, its messages are parked",
        "halfhitch tx check --group shop T1",
    ):
        assert words in out
    code, out, _ = run("tx", "explain", "T2", "-o", "json")
    assert "No producer of group bank is connected" in " ".join(json.loads(out)["explanation"])
    code, out, _ = run("tx", "explain", "P2")
    assert "did not take it" in out or "does not take the message" in out
    assert "a commit is on record" in out
    assert 'Decided by: an operator. Reason given: "alice: it was paid".' in out
    assert "halfhitch parked resume --reason '...' --group shop P2" in out


def test_explain_of_what_is_too_old_promised_checks_up_to_an_age_that_was_over(
    run: Any, operations: FakeOperations
) -> None:
    operations.pending = [undecided("T1", age_s=8 * 86_400.0)]
    code, out, _ = run("tx", "explain", "T1")
    assert code == 0
    text = " ".join(out.split())
    assert "It is older than 3d00h (checks.age_s_max): unless its producers say at the next" in text
    assert "its messages are parked" in text
    assert "or when it is" not in text


def test_explain_tells_why_a_check_could_not_be_answered() -> None:
    said = "RuntimeError: db down"
    lines = explain.undecided(asdict(undecided("T1", last_reason=said)), {})
    assert 'its answer: it cannot say yet, because: "RuntimeError: db down".' in " ".join(lines)
    lines = explain.parked(asdict(parked("P1", last_answer="no_answer", last_reason="status 500")))
    assert 'no answer (an error of the callback), because: "status 500".' in " ".join(lines)
