"""Why a check says UNKNOWN: told once, to the check that it belongs to."""

import asyncio
import threading

from halfhitch.client import why


def test_what_was_noted_is_taken_once() -> None:
    error = ValueError("no table")
    why.note(error)
    assert why.take() is error
    assert why.take() is None


def test_threads_do_not_hear_of_each_other() -> None:
    heard: list[object] = []
    why.note(ValueError("of this thread"))
    other = threading.Thread(target=lambda: heard.append(why.take()))
    other.start()
    other.join()
    assert heard == [None]
    assert why.take() is not None


async def test_tasks_do_not_hear_of_each_other() -> None:
    async def answer(name: str) -> str:
        why.note(ValueError(name))
        await asyncio.sleep(0)
        return str(why.take())

    assert await asyncio.gather(answer("one"), answer("two")) == ["one", "two"]


def test_grounds_are_taken_once() -> None:
    why.note_grounds("the row is there")
    assert why.take_grounds() == "the row is there"
    assert why.take_grounds() == ""
