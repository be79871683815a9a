"""Halves that other instances name are read together, and no trouble keeps an answer back."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.adapters.kafka.asked_halves import KafkaAskedHalves
from halfhitch.errors import KafkaUnavailable
from halfhitch.wire.half import HalfRecord, system_headers
from harness.desks import check

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from halfhitch.wire.check import Check


class Record:
    def __init__(self, transaction_id: str) -> None:
        self._headers = system_headers(HalfRecord(transaction_id, "orders", 0, 1, "i", "orders"))

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"v"

    def headers(self) -> Any:
        return self._headers


class Fetcher:
    """half_fetching.HalfFetcher over a log in which half n belongs to transaction Tn."""

    consumer = None

    def __init__(self) -> None:
        self.asked: list[tuple[int, list[int]]] = []
        self.failure: Exception | None = None
        self.may_read = threading.Event()
        self.is_reading = threading.Event()

    def fetch(self, partition: int, half_offsets: Iterable[int]) -> dict[int, Any]:
        self.asked.append((partition, sorted(half_offsets)))
        self.is_reading.set()
        assert self.may_read.wait(20)
        if self.failure is not None:
            raise self.failure
        return {half_offset: Record(f"T{half_offset}") for half_offset in half_offsets}


@pytest.fixture
async def halves() -> AsyncIterator[tuple[KafkaAskedHalves, Fetcher]]:
    loop = asyncio.get_running_loop()
    made = KafkaAskedHalves(loop, lambda: None, lambda _: "hh", half_topic="half")  # type: ignore[arg-type,return-value]
    fetcher = Fetcher()
    made._fetcher = fetcher  # type: ignore[assignment]
    yield made, fetcher
    fetcher.may_read.set()
    await asyncio.to_thread(made.stop, 20.0)


def asked(number: int, partition: int = 0) -> Check:
    bare = check(f"T{number}")
    return replace(bare, partition=partition, handle="", messages=(), half_offsets=(number,))


async def answers(made: KafkaAskedHalves, *checks: Check) -> list[Check | None]:
    waiting = []
    for one in checks:
        waiting.append(asyncio.get_running_loop().create_future())
        made.fill(one, waiting[-1].set_result)
    async with asyncio.timeout(20):
        return await asyncio.gather(*waiting)


async def test_what_came_in_while_it_read_is_read_in_one_go(
    halves: tuple[KafkaAskedHalves, Fetcher],
) -> None:
    made, fetcher = halves
    first = asyncio.ensure_future(answers(made, asked(1)))
    await asyncio.to_thread(fetcher.is_reading.wait, 20)
    rest = asyncio.ensure_future(answers(made, asked(4), asked(2), asked(3, partition=5)))
    await asyncio.sleep(0)
    fetcher.may_read.set()
    found = [*await first, *await rest]
    assert fetcher.asked == [(0, [1]), (0, [2, 4]), (5, [3])]
    assert [one and (one.handle, len(one.messages)) for one in found] == [("hh", 1)] * 4


@pytest.mark.parametrize("failure", [KafkaUnavailable("away"), RuntimeError("a bug")])
async def test_whatever_goes_wrong_is_an_answer_and_the_next_one_is_read(
    halves: tuple[KafkaAskedHalves, Fetcher], failure: Exception
) -> None:
    made, fetcher = halves
    fetcher.may_read.set()
    fetcher.failure = failure
    assert await answers(made, asked(1), asked(2)) == [None, None]
    fetcher.failure = None
    (found,) = await answers(made, asked(3))
    assert found is not None


async def test_after_the_stop_nothing_is_read(halves: tuple[KafkaAskedHalves, Fetcher]) -> None:
    made, fetcher = halves
    await asyncio.to_thread(made.stop, 20.0)
    assert await answers(made, asked(1)) == [None]
    assert fetcher.asked == []
