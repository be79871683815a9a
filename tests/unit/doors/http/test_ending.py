"""The transport of a connection, apart from what is asked over it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from halfhitch.doors.http.ending import Ending
from halfhitch.doors.http.reader import RequestReader


class Transport:
    """Notes what is done to it."""

    def __init__(self, *, can_write_eof: bool = True) -> None:
        self.calls: list[str] = []
        self._can_write_eof = can_write_eof

    def is_closing(self) -> bool:
        return bool({"close", "abort"} & set(self.calls))

    def can_write_eof(self) -> bool:
        return self._can_write_eof

    def __getattr__(self, name: str) -> Any:
        return lambda: self.calls.append(name)


class Reader:
    """Notes that it was ended."""

    def __init__(self) -> None:
        self.ends = 0

    def end(self) -> None:
        self.ends += 1


async def opened(**options: bool) -> tuple[Ending, Transport, Reader]:
    reader, transport = Reader(), Transport(**options)
    made = Ending(asyncio.get_running_loop(), cast("RequestReader", reader), None)
    made._transport = cast("asyncio.Transport", transport)
    return made, transport, reader


async def test_an_end_closes_once() -> None:
    made, transport, reader = await opened()
    made._close()
    made._close()
    made._pause_reading()
    assert (transport.calls, reader.ends) == (["close"], 1)


@pytest.mark.parametrize(("can", "said"), [(True, ["write_eof"]), (False, [])])
async def test_whoever_still_sends_is_lingered_for_and_read_on(can: bool, said: list[str]) -> None:
    made, transport, _ = await opened(can_write_eof=can)
    made._pause_reading()
    made._pause_reading()
    made._close(lingers=True)
    assert transport.calls == ["pause_reading", "resume_reading", *said]
    assert made._is_lingering


async def test_the_time_in_which_nothing_was_read_does_not_count_against_the_sender() -> None:
    made, _, _ = await opened()
    made._receiving_since_s = 0.0
    made._pause_reading()
    made._resume_reading()
    assert made._receiving_since_s is not None
    assert made._receiving_since_s > 0


async def test_an_abort_needs_no_transport() -> None:
    made, transport, reader = await opened()
    made._abort()
    made._transport = None
    made._abort()
    assert (transport.calls, reader.ends) == (["abort"], 1)
