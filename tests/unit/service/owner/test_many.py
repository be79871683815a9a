"""Thousands of transactions in one turn, without their payloads."""

from __future__ import annotations

import pytest

from halfhitch.core.ledger import Ledger
from halfhitch.service.api import Filter
from halfhitch.service.owner import many
from halfhitch.service.owner.payloads import PayloadCache
from harness.twin import Twin, turn_until_idle


def identity(name: str) -> tuple[str, str]:
    return "group", name


def test_a_decision_is_told_what_it_has_to_name_without_looking_through_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    twin = Twin()
    owner = twin.working_owner()
    offsets = [twin.half(name) for name in ("T1", "T2", "T3")]
    turn_until_idle(owner)
    twin.commit("T3")
    turn_until_idle(owner)
    monkeypatch.setattr(Ledger, "pending", lambda _: pytest.fail("all were looked through"))
    names = [identity(name) for name in ("T1", "T2", "T3", "T4")]
    asked = owner.checkback.ask(lambda ledger: many.halves_of(ledger, names))  # type: ignore[arg-type]
    owner.checkback._numbers_s = twin.clock.monotonic_s()  # the count of a second looks at them all
    owner.turn(0.0)
    assert asked.result(0) == {
        identity("T1"): ((offsets[0],), 1),
        identity("T2"): ((offsets[1],), 1),
    }


def test_names_need_no_payload(monkeypatch: pytest.MonkeyPatch) -> None:
    twin = Twin()
    owner = twin.working_owner()
    for number in range(5):
        twin.half(f"T{number}")
    turn_until_idle(owner)
    monkeypatch.setattr(PayloadCache, "all_of", lambda *_: pytest.fail("a payload was read"))
    wanted = Filter(producer_group="group")

    def names(ledger: Ledger) -> object:
        return many.names_of(owner.checkback.listing.matching(ledger, wanted), 3)

    asked = owner.checkback.ask(names)
    owner.turn(0.0)
    found, count = asked.result(0)  # type: ignore[misc]
    assert ([one.identity for one in found], count) == (
        [identity("T0"), identity("T1"), identity("T2")], 5,
    )  # fmt: skip
