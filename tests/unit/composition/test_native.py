"""What the native way of the data door asks for before it is gone."""

from __future__ import annotations

from typing import Any, cast

import pytest

from halfhitch.adapters.native import carrier
from halfhitch.composition.native import both, http_way
from halfhitch.core.model import ProducerGroup, Resolution, TransactionId
from halfhitch.service.transactions.asked import UnderWay
from harness.defaults import http_limits

T1 = ProducerGroup("g"), TransactionId("T1")


class Engine:
    """As much of one as is asked before anything is made."""

    transactions = None

    @staticmethod
    def appends() -> Any:
        return type("Appends", (), {"config": {}})


def way(make: Any) -> Any:
    engine, nobody = cast("Any", Engine), cast("Any", None)
    return http_way(engine, nobody, nobody, http_limits(), make, transaction_bytes_max=2**20)


def test_without_a_carrier_there_is_none() -> None:
    assert way(None) is None


def test_without_a_librdkafka_to_share_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrier, "library", lambda: None)
    assert way(lambda **_: None) is None


def test_whoever_knows_of_a_decision_is_heard_and_both_are_asked() -> None:
    asked: list[str] = []
    one, other = UnderWay(Resolution.COMMIT), UnderWay(Resolution.ROLLBACK)

    def known(name: str, found: UnderWay | None) -> Any:
        return lambda *_: asked.append(name) or found

    assert both(known("a", one), known("b", other))(0, T1) is one
    assert both(known("a", None), known("b", other))(0, T1) is other
    assert both(known("a", None), known("b", None))(0, T1) is None
    assert asked == ["a", "b"] * 3
    assert both(known("a", one), None)(0, T1) is one
