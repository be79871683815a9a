"""Resuming with a producer whose binding fails: what is known, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from halfhitch.adapters.kafka.parked_resume import Resumption
from halfhitch.errors import KafkaUnavailable, OutcomeUnknown


class _Fenced:
    """A producer of which one call returns with an error that nobody has set."""

    def __init__(self, breaks: str) -> None:
        self._breaks = breaks
        self.calls: list[str] = []

    def __len__(self) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any) -> int:
            self.calls.append(name)
            if name == self._breaks and self.calls.count(name) == 1:
                raise SystemError("returned NULL without setting an exception")
            return 0

        return call


def resumption(producer: Any) -> Resumption:
    return Resumption(
        producer, half_topic="half", op_topic="op", parked_topic="parked", timeout_s=5.0
    )


def test_a_flush_that_breaks_has_put_nothing_back_and_lets_the_producer_go() -> None:
    producer = _Fenced("flush")
    with pytest.raises(KafkaUnavailable, match="nothing was put back"):
        resumption(producer).put_back([], lambda _: {})
    assert "commit_transaction" not in producer.calls
    assert producer.calls[-4:] == ["flush", "purge", "abort_transaction", "purge"]


def test_a_commit_that_breaks_is_unknown_and_nothing_is_aborted() -> None:
    producer = _Fenced("commit_transaction")
    putting = resumption(producer)
    with pytest.raises(OutcomeUnknown):
        putting.put_back([], lambda _: {})
    putting.close()
    assert "abort_transaction" not in producer.calls


def test_letting_go_never_raises() -> None:
    putting = resumption(_Fenced("abort_transaction"))
    putting.close()
    putting.close()
