"""The asyncio producer's checks: one task reads the stream, a few others ask the application.

Imported by a producer that answers checks, when it begins to. The rules are in `checks`.

Invariants:
- a transaction is asked about once at a time, however often its check arrives;
- there is no queue: when as many checks are being asked or answered as may be, the stream is not
  read, and heartbeats go on;
- nothing of it is left after `close()`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol, TypeVar

from halfhitch.client import checks
from halfhitch.client.address import Address
from halfhitch.client.calls import Call, Calls
from halfhitch.client.checks import Answered, CheckStream, Lifeline, StreamLost, StreamRefused
from halfhitch.client.pacing import Pacing
from halfhitch.client.protocol import ProtocolError, Response
from halfhitch.client.retries import no_connection, words_of
from halfhitch.client.values import Check, LocalTransactionState

T = TypeVar("T")

_RECEIVE_BYTES = 64 * 1024


class Perform(Protocol):
    """Carries a call out, after the producer was closed too."""

    async def __call__(self, call: Call[T]) -> T:
        """Raises HalfHitchError."""
        ...


class Answering(NamedTuple):
    """What a producer hands over; nothing in it leads back to the producer, which may be dropped.

    (Unless the application's function does: then only `close()` ends the stream.)
    """

    address: Address
    group: str
    calls: Calls
    ask: Callable[[Check], Awaitable[LocalTransactionState]]
    perform: Perform
    pacing: Pacing
    asking_max: int


class CheckAnswers:
    """Answers the checks of one producer."""

    def __init__(self, answering: Answering) -> None:
        self._with = answering
        self._loop: asyncio.AbstractEventLoop
        self._over = False
        self._asked: set[str] = set()  # transaction ids
        self._tasks: set[asyncio.Task[None]] = set()
        self._asking_count = 0
        self._freed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        #: No loop ran so far: to be started with the first use.
        self.is_due = False

    def start(self) -> None:
        """Begin, unless that has been done or is due later."""
        if self._task is not None or self._over:
            return
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            self.is_due = True
            return
        self.is_due = False
        name = f"halfhitch-checks-{self._with.group}"
        self._task = self._loop.create_task(self._run(), name=name)

    def stop(self) -> None:
        """End the stream, without waiting for anything; from any thread."""
        self._over = True
        if self._task is None:
            return
        try:
            self._loop.call_soon_threadsafe(self._task.cancel)
        except RuntimeError:
            pass  # the loop is closed, and all its tasks are over

    async def close(self) -> None:
        """End the stream; wait, for a bounded time, for the checks that are running."""
        self._over = True
        current = asyncio.current_task()
        if self._task is None or self._loop.is_closed():
            return  # no task of a closed loop goes on
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=checks.CLOSE_S)
        running = [task for task in self._tasks if task is not current]
        if running:
            _, late = await asyncio.wait(running, timeout=checks.CLOSE_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=checks.CLOSE_S)

    async def _run(self) -> None:
        lifeline = Lifeline(self._with.address.text, self._with.group, self._with.pacing.jitter)
        while True:
            began_at_s = self._loop.time()
            try:
                stream, reason, refusal = await self._follow(lifeline)
            except Exception as error:  # noqa: BLE001 - a bug must not end the answers for ever
                checks.note_crash(error)
                stream, reason, refusal = None, "a bug of this client", None
            lasted_s = self._loop.time() - began_at_s
            await asyncio.sleep(lifeline.pause_s(reason, stream, lasted_s, refusal))

    async def _follow(self, lifeline: Lifeline) -> tuple[CheckStream | None, str, Response | None]:
        """One connection from its beginning to its end, whatever that is."""
        stream = None
        try:
            reader, writer = await self._connect()
        except OSError as error:
            return None, no_connection(error, self._with.address.trust).reason, None
        try:
            request = self._with.calls.checks(
                checks.producer_name(),
                checks.HEARTBEAT_S,
                checks.at_once(self._with.asking_max),
            )
            writer.write(request)
            stream = CheckStream(self._with.group, self._loop.time(), lifeline.recovered)
            await self._listen(reader, writer, stream)
        except StreamRefused as refused:
            return stream, "", refused.response
        except StreamLost as lost:
            return stream, lost.reason, None
        except (OSError, ProtocolError) as error:
            return stream, words_of(error), None
        finally:
            writer.transport.abort()
            try:
                await writer.wait_closed()
            except OSError:
                pass  # how it ended is known already
        return stream, "the sidecar ended it", None

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address, trust = self._with.address, self._with.address.trust
        async with asyncio.timeout(checks.CONNECT_S):
            if address.path is None:
                return await asyncio.open_connection(
                    address.host,
                    address.port,
                    ssl=None if trust is None else trust.context(),
                    server_hostname=None if trust is None else trust.server_name,
                )
            return await asyncio.open_unix_connection(address.path)

    async def _listen(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: CheckStream
    ) -> None:
        while not stream.is_over:
            self._beat(writer, stream)
            try:
                async with asyncio.timeout(stream.wait_s(self._loop.time())):
                    data = await reader.read(_RECEIVE_BYTES)
            except TimeoutError:
                stream.look_at_clock(self._loop.time())
                continue
            if not data:
                stream.end()
                return
            for check in stream.feed(data, self._loop.time()):
                await self._take(check, writer, stream)

    def _beat(self, writer: asyncio.StreamWriter, stream: CheckStream) -> None:
        if stream.beat_is_due(self._loop.time()):
            writer.write(checks.HEARTBEAT)

    async def _take(self, check: Check, writer: asyncio.StreamWriter, stream: CheckStream) -> None:
        """Give it a task; until there is room for one, nothing else is read."""
        if check.transaction_id in self._asked:
            checks.note_repeated(check)
            return
        began_at_s = self._loop.time()
        told = False
        while not self._has_room():
            self._freed.clear()
            try:
                async with asyncio.timeout(stream.wait_s(self._loop.time())):
                    await self._freed.wait()
            except TimeoutError:
                pass  # a heartbeat is due
            self._beat(writer, stream)
            stream.listened_again(self._loop.time())
            if writer.is_closing():
                raise StreamLost("the connection was closed")
            if not told and self._loop.time() - began_at_s >= checks.STUCK_S:
                told = True
                checks.note_stuck(self._with.group, self._with.asking_max)
        self._asked.add(check.transaction_id)
        name = f"halfhitch-check-{check.transaction_id}"
        task = self._loop.create_task(self._answer(check), name=name)
        self._tasks.add(task)
        self._asking_count += 1
        task.add_done_callback(self._done)

    def _has_room(self) -> bool:
        asking_max = self._with.asking_max
        return (
            self._asking_count < asking_max and len(self._tasks) < asking_max + checks.SENDING_MAX
        )

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._freed.set()

    async def _answer(self, check: Check) -> None:
        is_asked = True
        try:
            try:
                answered = await self._answered(check)
            finally:
                self._asking_count -= 1
                self._freed.set()
            if answered.state is LocalTransactionState.UNKNOWN:
                # The next check may come before we know that this answer has arrived.
                self._asked.discard(check.transaction_id)
                is_asked = False
            await self._send(check, answered)
        except asyncio.CancelledError:
            checks.note_abandoned(check)
            raise
        finally:
            if is_asked:
                self._asked.discard(check.transaction_id)

    async def _answered(self, check: Check) -> Answered:
        checks.forget_earlier()
        try:
            return checks.answer_of(check, await self._with.ask(check))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return checks.unknown_because(check, error)  # of something that it awaited
        except Exception as error:  # noqa: BLE001 - the application's: logged, never a decision
            return checks.unknown_because(check, error)

    async def _send(self, check: Check, answered: Answered) -> None:
        try:
            call = self._with.calls.answer_check(
                answered.state, check.handle, check.transaction_id, answered.reason
            )
            await self._with.perform(call)
        except Exception as error:  # noqa: BLE001 - told; the coordinator asks again
            checks.note_unsent(check, answered.state, error)
