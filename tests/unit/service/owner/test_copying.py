"""Copies that the half topic refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from halfhitch.core.model import COPIED, DoneRead
from harness.defaults import check_rules, owner_limits
from harness.refusals import LARGE, RULES, failures, parked, put, turns
from harness.twin import Twin

if TYPE_CHECKING:
    pass


def checked(twin: Twin) -> list[str]:
    return [check.identity[1] for check in twin.gate.sent]


def copies(twin: Twin) -> int:
    return sum(isinstance(op, DoneRead) and op.ending == COPIED for op in twin.ops())


def test_a_copy_that_the_half_topic_refuses_holds_back_no_other_check_and_no_commit() -> None:
    twin = Twin(limits=owner_limits(check_rules=RULES))
    twin.gate.room = 100
    owner = twin.working_owner()
    for n in range(30):
        twin.half(f"P{n}", value=LARGE if n in (3, 17) else b"small")
    turns(twin, owner, 5)
    twin.kafka.record_bytes_max[twin.kafka.half_topic] = 1_000
    put(twin, "T1", "orders")
    turns(twin, owner, 4)
    put(twin, "T2", "orders")
    turns(twin, owner, 4)
    assert twin.values() == [b"T1", b"T2"]
    assert sorted(checked(twin)) == sorted(f"P{n}" for n in range(30) if n not in (3, 17))
    assert twin.gate.taken == 0, "permits of those that rest are free"
    assert parked(twin) == []
    (trouble,) = owner.troubles
    assert "2 undecided transactions are not checked" in trouble
    assert f"raise max.message.bytes of {twin.kafka.half_topic}" in trouble
    failed = failures(twin)
    assert failed <= 12
    del twin.kafka.record_bytes_max[twin.kafka.half_topic]
    turns(twin, owner, 60)
    assert {"P3", "P17"} <= set(checked(twin))
    assert owner.troubles == []
    assert {c.number for c in twin.gate.sent if c.identity[1] == "P3"} == {1}


def test_who_rests_is_tried_ever_more_rarely_and_ends_when_it_is_decided() -> None:
    twin = Twin(limits=owner_limits(check_rules=RULES))
    twin.gate.room = 100
    owner = twin.working_owner()
    twin.half("P1", value=LARGE)
    turns(twin, owner, 1)
    twin.kafka.record_bytes_max[twin.kafka.half_topic] = 1_000
    turns(twin, owner, 600)
    assert 4 <= failures(twin) <= 6
    assert owner.troubles != []
    twin.commit("P1")
    turns(twin, owner, 2)
    assert twin.values() == [LARGE]
    assert owner.troubles == []


def test_a_renewal_that_the_half_topic_refuses_rests_too() -> None:
    rules = check_rules(immunity_ms=6_000, interval_ms=900_000, jitter=0.0, renew_ms=30_000)
    twin = Twin(limits=owner_limits(check_rules=rules))
    owner = twin.working_owner()
    twin.half("large", value=LARGE)
    twin.half("small")
    turns(twin, owner, 20)
    twin.kafka.record_bytes_max[twin.kafka.half_topic] = 1_000
    turns(twin, owner, 25)
    assert copies(twin) == 1
    assert failures(twin) <= 2
    assert len(owner.troubles) == 1


def test_a_half_topic_that_takes_nothing_pauses_the_checks_and_nothing_else() -> None:
    twin = Twin(limits=owner_limits(check_rules=RULES))
    twin.gate.room = 100
    owner = twin.working_owner()
    for n in range(50):
        twin.half(f"P{n}")
    put(twin, "T1", "orders")
    turns(twin, owner, 5)
    twin.kafka.faults.forbidden = {twin.kafka.half_topic}
    turns(twin, owner, 60)
    put(twin, "T2", "orders")
    turns(twin, owner, 1)
    assert twin.values() == [b"T1", b"T2"]
    assert failures(twin) <= 10
    (trouble,) = owner.troubles
    assert trouble.startswith("no transaction can be checked: " + twin.kafka.half_topic)
    assert "no right to write" in trouble
    twin.kafka.faults.forbidden = set()
    turns(twin, owner, 40)
    assert len(set(checked(twin))) == 50
    assert owner.troubles == []
