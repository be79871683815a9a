"""Questions to Redis that somebody on the event loop waits for, with a short deadline.

Owns one thread with a connection of its own: what is asked while an answer is awaited goes out
together as the next pipeline. Invariants: no question waits longer than ASK_S; after a failure
questions fail at once for half a second, so that ten thousand of them do not queue up behind a
paused server; whoever gives up waiting disturbs no other answer.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from halfhitch.adapters.redis import connect
from halfhitch.adapters.redis.address import RedisAddress
from halfhitch.errors import RedisUnavailable

ASK_S: Final = 0.5
_QUESTIONS_MAX: Final = 20_000
_AT_ONCE: Final = 256

_Answer = TypeVar("_Answer")


@dataclass(slots=True)
class _Question:
    commands: Sequence[connect.Command]
    parse: Callable[[list[Any]], Any]
    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop


class Asker:
    """Started and stopped by RedisIndex."""

    def __init__(self, address: RedisAddress) -> None:
        self._address = address
        self._questions: deque[_Question] = deque()  # bounded by `ask`
        self._any = threading.Event()
        self._closed_until_s = 0.0
        self._answered_s = 0.0
        self._client: connect.Client | None = None
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="redis-asker", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End soon; what was not answered fails."""
        self._is_stopping = True
        self._any.set()

    def join(self, at_most_s: float) -> None:
        """Wait for its end."""
        if self._thread.ident is not None:
            self._thread.join(at_most_s)

    async def ask(
        self, commands: Sequence[connect.Command], parse: Callable[[list[Any]], _Answer]
    ) -> _Answer:
        """One round trip; `parse` runs on the thread and gets errors of single commands among the
        answers. Raises RedisUnavailable."""
        if (
            self._is_stopping
            or len(self._questions) >= _QUESTIONS_MAX
            or time.monotonic() < self._closed_until_s
        ):
            raise self._unavailable()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Answer] = loop.create_future()
        self._questions.append(_Question(commands, parse, future, loop))
        self._any.set()
        try:
            return await asyncio.wait_for(future, ASK_S)
        except TimeoutError:
            now_s = time.monotonic()
            if self._answered_s < now_s - ASK_S:  # else only this one came too late
                self._closed_until_s = now_s + ASK_S
            raise self._unavailable() from None

    def _unavailable(self) -> RedisUnavailable:
        return RedisUnavailable(
            f"Redis at {self._address.label} does not answer; no transaction depends on it. "
            "Try again, or ask the instance that owns the half partition."
        )

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_stopping:
            self._any.wait()
            self._any.clear()
            while self._questions and not self._is_stopping:
                count = min(len(self._questions), _AT_ONCE)
                self._answer([self._questions.popleft() for _ in range(count)])
        connect.close(self._client)

    def _answer(self, questions: list[_Question]) -> None:
        asked = [question for question in questions if not question.future.done()]
        try:
            if self._client is None:
                self._client = connect.connect(self._address, wait_s=ASK_S)
            answers = connect.run(self._client, [c for q in asked for c in q.commands])
        except Exception:  # noqa: BLE001 - redis-py raises many kinds; all mean: no answer
            connect.close(self._client)
            self._client = None
            self._closed_until_s = time.monotonic() + ASK_S
            results: list[Any] = [self._unavailable() for _ in asked]
        else:
            self._answered_s = time.monotonic()
            results = []
            for question in asked:
                part, answers = answers[: len(question.commands)], answers[len(question.commands) :]
                results.append(self._parsed(question, part))
        for question, result in zip(asked, results, strict=True):
            try:
                question.loop.call_soon_threadsafe(_tell, question.future, result)
            except RuntimeError:
                continue  # its loop has been closed

    def _parsed(self, question: _Question, answers: list[Any]) -> Any:
        for answer in answers:
            if isinstance(answer, Exception) and not connect.is_garbage(answer):
                return self._unavailable()
        try:
            return question.parse(answers)
        except Exception:  # noqa: BLE001 - what lies in Redis must not end this thread
            return self._unavailable()


def _tell(future: "asyncio.Future[Any]", result: Any) -> None:
    if future.done():
        return
    if isinstance(result, RedisUnavailable):
        future.set_exception(result)
    else:
        future.set_result(result)
