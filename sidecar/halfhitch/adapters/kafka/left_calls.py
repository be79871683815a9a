"""Calls of librdkafka that may never return, made where they can be left.

`send_offsets_to_transaction` keeps no bound of time: it waits for an answer, and looks at the clock
when one comes. It sends nothing more once the broker that it knows as the group's coordinator was
killed and is no longer named in Kafka's metadata: librdkafka then gives up its own handle of that
broker and waits for ever for just that handle to connect (librdkafka#5456, #5511; 2.10 to 2.16).

So the call is made on a thread of its own (`SideThread`). When it has not returned in time it is
left there with its producer, whose Kafka transaction nobody will ever ask to commit, and which the
next fence outdates. A producer must not end while it is in a call, nor go on without anybody who
serves it: what it logs would fill the memory. So a left one is minded (`leave`) until its call has
returned. Most do soon after the fence: a record of the old epoch is produced, Kafka refuses it,
and librdkafka ends whatever call is under way with that fatal error.
"""

import logging
import queue
import threading
from collections.abc import Callable
from typing import Final

from halfhitch.adapters.kafka.clients import OwnerProducer
from halfhitch.adapters.kafka.errors import CLOSE_ERRORS
from halfhitch.adapters.kafka.letting_go import let_go

logger = logging.getLogger(__name__)

#: So many may be left for one half partition. More than one means that no fence helps.
LEFT_MAX: Final = 3
#: Between two looks at a left producer; its log lines and statistics wait meanwhile.
_LOOK_S: Final = 0.2
#: An abort by a producer that is not needed any more. Bounded by librdkafka itself.
_ABORT_S: Final = 10.0


class CallHangs(Exception):
    """The call has not returned in time, and goes on."""


class SideThread:
    """Makes one call at a time, for one thread that waits for it. Ends with `end` or `leave`."""

    def __init__(self, name: str) -> None:
        self._name = name
        # At most one call, one thing to do after it, and the end; and one answer.
        self._asked: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        self._is_running = False

    def call(self, function: Callable[[], object], wait_s: float | None) -> None:
        """Raises what `function` raises, or CallHangs; after that, only `leave` is allowed."""
        if not self._is_running:
            threading.Thread(target=self._make_calls, name=self._name, daemon=True).start()
            self._is_running = True
        self._asked.put(function)
        try:
            error = self._answers.get(timeout=wait_s)
        except queue.Empty:
            raise CallHangs from None
        try:
            if error is not None:
                raise error
        finally:
            del error, function  # whoever keeps the error keeps this frame, and the producer

    def leave(self, then: Callable[[], object]) -> None:
        """Do this once the call under way has returned, and end."""
        self._asked.put(then)
        self._asked.put(None)

    def end(self) -> None:
        """Harmless when repeated, and when no call was ever made."""
        self._asked.put(None)

    def _make_calls(self) -> None:
        while (function := self._asked.get()) is not None:
            self._answers.put(_error_of(function))
            del function  # it holds a producer, which must end when it is let go


def _error_of(function: Callable[[], object]) -> Exception | None:
    try:
        function()
    except Exception as error:  # noqa: BLE001 - raised again in the thread that waits for it
        return error.with_traceback(None)  # whose frames would hold the producer
    return None


class _Left:
    """A producer that is in a call. Minded by a thread of its own until the call has returned."""

    def __init__(
        self, producer: OwnerProducer, log: tuple[str, int], on_change: Callable[[bool], None]
    ) -> None:
        self._producer = producer
        self._log = log
        self._on_change = on_change
        self._returned = threading.Event()
        self._outdated = threading.Event()
        self._minder = threading.Thread(target=self._mind, name="left-in-call", daemon=True)
        self._minder.start()

    def outdated(self) -> None:
        """A later producer of its transactional id has been fenced in: this one can be told."""
        self._outdated.set()

    def _mind(self) -> None:
        while not self._returned.wait(_LOOK_S):
            try:
                if self._outdated.is_set():
                    # Kafka refuses it for its epoch. Were it taken: nobody will ever commit it.
                    self._producer.produce(self._log[0], b"", partition=self._log[1])
                self._producer.poll(0)
            except (BufferError, *CLOSE_ERRORS) as error:
                # Its fatal error, again and again; or a transaction that takes no records.
                logger.debug("a producer that was left in a call: %s", error)

    def end(self) -> None:
        """Its call has returned: it may end as any other one."""
        self._returned.set()
        self._minder.join()
        producer = self._producer
        del self._producer
        try:
            # Of its own transaction, and with its own epoch: whatever came later is not touched.
            producer.abort_transaction(_ABORT_S)
        except CLOSE_ERRORS as error:
            logger.debug("a producer that was left in a call did not abort: %s", error)
        let_go(producer)
        with _lock:
            _left[self._log].remove(self)
            if not _left[self._log]:
                del _left[self._log]
        self._on_change(False)
        logger.info(
            "the producer of %s-%d that had been left in a call has come out of it and is gone",
            *self._log,
            extra={"action": "left_producer_gone"},
        )


#: op topic and partition -> those that are still in a call. An owner's successor in this process
#: must know them, too.
_left: dict[tuple[str, int], list[_Left]] = {}
_lock = threading.Lock()


def may_leave(log: tuple[str, int]) -> bool:
    """Whether one more may be left. If not, whoever hangs has to hang: the watchdog sees it."""
    with _lock:
        return len(_left.get(log, ())) < LEFT_MAX


def leave(
    producer: OwnerProducer,
    side: SideThread,
    log: tuple[str, int],
    on_change: Callable[[bool], None] = lambda _: None,
) -> None:
    """Leave it in the call that hangs on its side thread. `log` can be written to by it.

    `on_change` is told True now, and False once it has come out of its call and is gone.
    """
    left = _Left(producer, log, on_change)
    with _lock:
        _left.setdefault(log, []).append(left)
    on_change(True)
    side.leave(left.end)


def outdate(log: tuple[str, int]) -> None:
    """A new producer has been fenced in, with the transactional id of those that were left."""
    with _lock:
        found = list(_left.get(log, ()))
    for left in found:
        left.outdated()
