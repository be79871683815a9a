"""What the native way of the data door asks for before it is gone."""

from __future__ import annotations

from typing import Any, cast

import pytest

from halfhitch.adapters.native import carrier
from halfhitch.composition.native import http_way
from harness.defaults import http_limits


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
