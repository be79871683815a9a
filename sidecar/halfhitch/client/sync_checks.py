"""The blocking producer's checks: one thread reads the stream, a few others ask the application.

Imported by a producer that answers checks, when it begins to. The rules are in `checks`.

Invariants:
- a transaction is asked about once at a time, however often its check arrives;
- there is no queue: when as many checks are being asked or answered as may be, the stream is not
  read, and heartbeats go on;
- all threads are daemons and end soon after `close()`, or when the producer is dropped;
- a forked child has no threads of these: it starts its own at its first call, on a connection of
  its own;
- a signal's handler that raises, in whoever starts or closes this, leaves nothing locked: a plain
  lock's `with` is one step each way, and a Condition's or an Event's own methods are not.
"""

import os
import socket
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from halfhitch.client import checks
from halfhitch.client.address import Address
from halfhitch.client.calls import Call, Calls
from halfhitch.client.checks import Answered, CheckStream, Lifeline, StreamLost, StreamRefused, log
from halfhitch.client.pacing import Pacing
from halfhitch.client.protocol import ProtocolError, Response
from halfhitch.client.retries import no_connection, words_of
from halfhitch.client.sync_connections import connect
from halfhitch.client.turns import Bell
from halfhitch.client.values import Check, LocalTransactionState

T = TypeVar("T")

_RECEIVE_BYTES = 64 * 1024
#: A worker without work for so long ends.
_IDLE_S = 10.0


class Perform(Protocol):
    """Carries a call out, after the producer was closed too."""

    def __call__(self, call: Call[T]) -> T:
        """Raises HalfHitchError."""
        ...


class Answering(NamedTuple):
    """What a producer hands over; nothing in it leads back to the producer, which may be dropped.

    (Unless the application's function does: then only `close()` ends the stream.)
    """

    address: Address
    group: str
    calls: Calls
    ask: Callable[[Check], LocalTransactionState]
    perform: Perform
    pacing: Pacing
    workers_max: int


class CheckAnswers:
    """Answers the checks of one producer."""

    def __init__(self, answering: Answering) -> None:
        self._with = answering
        self._clock = answering.pacing.clock
        self._over = False
        self._abandoned = False
        self._reset()
        _all.add(self)

    def _reset(self) -> None:
        # Re-entrant: dropping the producer may happen anywhere, in the middle of its use too.
        self._lock = threading.RLock()
        self._wake = Bell()
        self._connection: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._workers = _Workers(self._with.workers_max, f"halfhitch-check-{self._with.group}")
        self._asked: set[str] = set()  # transaction ids; add and discard are atomic
        #: In a forked child that has not used its producer yet.
        self.is_due = False

    def start(self) -> None:
        """Begin, unless that has been done."""
        with self._lock:
            if self._thread is not None or self._over:
                return
            thread = threading.Thread(
                target=self._run, name=f"halfhitch-checks-{self._with.group}", daemon=True
            )
            self._thread = thread
            try:
                thread.start()
            except BaseException:
                self._thread = None  # it may have begun all the same, and ends then
                raise
            self.is_due = False

    def stop(self) -> None:
        """End the stream, without waiting for anything."""
        self._over = True
        with self._lock:
            if self._connection is not None:
                _shut(self._connection)

    def close(self) -> None:
        """End the stream; wait, for a bounded time, for the checks that are running."""
        self.stop()
        self._wake.ring()
        ends_at_s = self._clock() + checks.CLOSE_S
        self._workers.close(ends_at_s, self._clock)
        self._abandoned = True  # what comes later is not sent: the program believes we are silent
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(ends_at_s - self._clock(), 0.1))

    def forget_after_fork(self) -> None:
        """In the child: the threads are gone, and the connection is the parent's."""
        connection = self._connection
        was_started = self._thread is not None
        self._reset()
        self.is_due = was_started
        if connection is not None:
            connection.close()  # no shutdown: that would end the parent's

    def _run(self) -> None:
        with self._lock:
            if self._thread is not threading.current_thread():
                return
        pacing = self._with.pacing
        lifeline = Lifeline(self._with.address.text, self._with.group, pacing.jitter)
        while not self._over:
            began_at_s = self._clock()
            try:
                stream, reason, refusal = self._follow(lifeline)
            except Exception as error:  # noqa: BLE001 - a bug must not end the answers for ever
                checks.note_crash(error)
                stream, reason, refusal = None, "a bug of this client", None
            if self._over:
                return
            lasted_s = self._clock() - began_at_s
            pacing.wait(self._wake, lifeline.pause_s(reason, stream, lasted_s, refusal))

    def _follow(self, lifeline: Lifeline) -> tuple[CheckStream | None, str, Response | None]:
        """One connection from its beginning to its end, whatever that is."""
        stream = None
        try:
            connection = connect(self._with.address, checks.CONNECT_S)
        except OSError as error:
            return None, no_connection(error, self._with.address.trust).reason, None
        try:
            with self._lock:
                self._connection = connection
            if not self._over:
                request = self._with.calls.checks(
                    checks.producer_name(),
                    checks.HEARTBEAT_S,
                    checks.at_once(self._with.workers_max),
                )
                connection.sendall(request)
                stream = CheckStream(self._with.group, self._clock(), lifeline.recovered)
                self._listen(connection, stream)
        except StreamRefused as refused:
            return stream, "", refused.response
        except StreamLost as lost:
            return stream, lost.reason, None
        except (OSError, ProtocolError) as error:
            return stream, words_of(error), None
        finally:
            with self._lock:
                self._connection = None
                _shut(connection)  # a child that was forked at a bad moment may hold a copy
                connection.close()
        return stream, "the sidecar ended it", None

    def _listen(self, connection: socket.socket, stream: CheckStream) -> None:
        while not (stream.is_over or self._over):
            self._beat(connection, stream)
            connection.settimeout(max(stream.wait_s(self._clock()), 0.001))
            try:
                data = connection.recv(_RECEIVE_BYTES)
            except TimeoutError:
                stream.look_at_clock(self._clock())
                continue
            if not data:
                stream.end()
                return
            for check in stream.feed(data, self._clock()):
                self._take(check, connection, stream)

    def _beat(self, connection: socket.socket, stream: CheckStream) -> None:
        if stream.beat_is_due(self._clock()):
            connection.settimeout(checks.CONNECT_S)
            connection.sendall(checks.HEARTBEAT)

    def _take(self, check: Check, connection: socket.socket, stream: CheckStream) -> None:
        """Hand it to a worker; until one is free, nothing else is read."""
        if check.transaction_id in self._asked:
            checks.note_repeated(check)
            return
        began_at_s = self._clock()
        told = False
        while not self._over:
            if self._workers.has_room(max(stream.wait_s(self._clock()), 0.001)):
                self._asked.add(check.transaction_id)
                if self._workers.submit(lambda: self._ask(check)):
                    break
                self._asked.discard(check.transaction_id)
            self._beat(connection, stream)
            stream.listened_again(self._clock())
            if not told and self._clock() - began_at_s >= checks.STUCK_S:
                told = True
                checks.note_stuck(self._with.group, self._with.workers_max)

    def _ask(self, check: Check) -> Callable[[], None]:
        """Ask the application; what it returns is to be done next."""
        asked = self._asked  # a fork inside the application's function leaves the child another
        answered = self._answered(check)
        if answered.state is LocalTransactionState.UNKNOWN:
            # The next check may come before we know that this answer has arrived.
            asked.discard(check.transaction_id)
            return lambda: self._send(check, answered)

        def decide() -> None:
            try:
                self._send(check, answered)
            finally:
                asked.discard(check.transaction_id)

        return decide

    def _answered(self, check: Check) -> Answered:
        checks.forget_earlier()
        try:
            return checks.answer_of(check, self._with.ask(check))
        except BaseException as error:  # noqa: BLE001 - nobody else would hear of an exit here
            return checks.unknown_because(check, error)

    def _send(self, check: Check, answered: Answered) -> None:
        if self._abandoned:
            checks.note_abandoned(check)
            return
        try:
            call = self._with.calls.answer_check(
                answered.state, check.handle, check.transaction_id, answered.reason
            )
            self._with.perform(call)
        except Exception as error:  # noqa: BLE001 - told; the coordinator asks again
            checks.note_unsent(check, answered.state, error)


class _Workers:
    """Threads that come when there is work and go when there was none for a while.

    A job has two parts, of which the first returns the second; only the first is scarce.
    """

    def __init__(self, count_max: int, name: str) -> None:
        self._count_max = count_max
        self._name = name
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._jobs: deque[_Job] = deque()  # at most as many as may be open
        self._threads: set[threading.Thread] = set()
        self._first_part_count = 0  # jobs whose first part has not ended
        self._open_count = 0  # jobs that have not ended
        self._idle_count = 0
        self._closed = False

    def has_room(self, wait_s: float) -> bool:
        """Whether there is a free place, now or within this time."""
        with self._lock:
            self._changed.wait_for(lambda: self._closed or self._is_free(), wait_s)
            return self._is_free() and not self._closed

    def submit(self, job: "_Job") -> bool:
        """Only one thread may submit, after `has_room`. False: no thread could be had."""
        with self._lock:
            self._jobs.append(job)
            self._open_count += 1
            self._first_part_count += 1
            if self._idle_count >= len(self._jobs):
                self._changed.notify_all()
                return True
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._threads.add(thread)
            try:
                thread.start()
            except RuntimeError as error:  # too many threads, or the interpreter is ending
                self._threads.discard(thread)
                if self._threads:
                    return True
                self._jobs.pop()
                self._open_count -= 1
                self._first_part_count -= 1
                log.warning(
                    "no thread for a check could be started: %s",
                    error,
                    extra={"action": "check_thread_failed"},
                )
                self._changed.wait(0.5)
                return False
        return True

    def close(self, ends_at_s: float, clock: Callable[[], float]) -> None:
        """Wait for the jobs, except the one that calls this."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()
        while True:
            with self._lock:
                others = [one for one in self._threads if one is not threading.current_thread()]
            left_s = ends_at_s - clock()
            if not others or left_s <= 0:
                return
            others[0].join(left_s)

    def _is_free(self) -> bool:
        return (
            self._first_part_count < self._count_max
            and self._open_count < self._count_max + checks.SENDING_MAX
        )

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle_count += 1
                self._changed.wait_for(lambda: self._jobs or self._closed, _IDLE_S)
                self._idle_count -= 1
                if not self._jobs:
                    self._threads.discard(threading.current_thread())
                    self._changed.notify_all()
                    return
                job = self._jobs.popleft()
            second_part = self._done(job)
            with self._lock:
                self._first_part_count -= 1
                self._changed.notify_all()
            if second_part is not None:
                self._done(second_part)
            del job, second_part  # an idle worker holds nobody's message
            with self._lock:
                self._open_count -= 1
                self._changed.notify_all()

    def _done(self, part: Callable[[], T]) -> T | None:
        try:
            return part()
        except Exception as error:  # noqa: BLE001 - a bug must not cost a worker
            checks.note_crash(error)
            return None


_Job = Callable[[], Callable[[], None]]


_all: "weakref.WeakSet[CheckAnswers]" = weakref.WeakSet()


def _forget_all() -> None:
    for answers in list(_all):
        answers.forget_after_fork()


os.register_at_fork(after_in_child=_forget_all)


def _shut(connection: socket.socket) -> None:
    """End it for both sides, which also wakes the thread that reads it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the other side was faster
