"""One connection: answers in order, within limits, until an orderly end.

Owns a connection's transport, queue and deadlines. Reading is reader's, meaning is dispatch's.

One request of a connection is worked on at a time. That is what HTTP asks of pipelined requests
that change something, and a caller that sends a commit right behind an add must not see the two
race. A request that needs waiting gets a task of its own; others are answered at once.

Invariants:

- Answers leave in the order of the requests, refusals included.
- Nothing waits for a caller without end: `sweep` ends what is idle, slow or stalled.
- A refusal is read by whoever sends his request to its end before he looks for the answer: what he
  still sends is taken and thrown away, within bounds of bytes and time.
- Whoever has shown that he may be here is not kept out by those who have not: see places.
- Whoever does not read gets no more work done: while the write buffer is full or too many
  requests are queued, nothing is begun and nothing is read.
- A request once begun is carried out even if its caller is gone; only its answer is dropped.
- Whatever bytes arrive, no exception reaches the event loop.

One kind of request ends this: a `GET /v1/checks` in order is not answered, but in its turn the
transport is handed to stream.py, and this object is done with. Until then all of the above holds.

Deadlines are looked after by one sweep of the door: a timer per request would cost too much.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter
from typing import cast

from halfhitch.doors.holding import peer_of
from halfhitch.doors.http.dispatch import Dispatcher
from halfhitch.doors.http.ending import Ending
from halfhitch.doors.http.errors import (
    TooManyConnections,
    certificate_required,
    error_reply,
    too_slow,
)
from halfhitch.doors.http.faults import failure_reply
from halfhitch.doors.http.guard import show_certificate
from halfhitch.doors.http.lending import Lending, Loan, is_usual
from halfhitch.doors.http.limits import Limits
from halfhitch.doors.http.load import Load, Share
from halfhitch.doors.http.places import prove, take_place
from halfhitch.doors.http.reader import BETWEEN, RequestReader
from halfhitch.doors.http.replies import (
    CONTINUE,
    closing,
    reply_status,
    staying_open,
    without_body,
)
from halfhitch.doors.http.requests import Request, Trace
from halfhitch.doors.http.stream import Opening, out_of_step
from halfhitch.doors.tls import ClientCertificate, ServerTls
from halfhitch.errors import HalfHitchError, ShuttingDown

_log = logging.getLogger(__name__)

#: Told of every answer: route, status, seconds since the request was complete, its trace's context.
OnRequest = Callable[[str, int, float, Trace], None]

#: More than one read can bring (256 KiB of the shortest requests); reading stops long before.
_QUEUED_COUNT_MAX = 1 << 16


class Connection(Ending):
    """The door's side of one connection."""

    __slots__ = (
        "_certificate",
        "_discarded_bytes",
        "_dispatcher",
        "_idle_since_s",
        "_is_busy",
        "_is_encrypted",
        "_is_write_paused",
        "_limits",
        "_load",
        "_makes_room",
        "_on_request",
        "_owes_continue",
        "_owner",
        "_peer",
        "_queue",
        "_refusal",
        "_requires_certificate",
        "_share",
        "_stalled_since_s",
        "_task",
        "_tls",
        "_was_active",
        "opened_s",
    )

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        limits: Limits,
        load: Load,
        loop: asyncio.AbstractEventLoop,
        on_request: OnRequest | None,
        makes_room: bool = False,
        refusal: HalfHitchError | None = None,
        tls: ServerTls | None = None,
        lending: Lending | None = None,
    ) -> None:
        """`refusal`: all that is ever said on it, whatever it sends."""
        self._refusal = refusal
        self._tls = tls
        self._requires_certificate = tls is not None and tls.files.clients == "required"
        self._is_encrypted = False
        self._certificate: ClientCertificate | None = None
        self._dispatcher = dispatcher
        self._limits = limits
        self._load = load
        self._on_request = on_request
        self._makes_room = makes_room
        loan = None if lending is None else Loan(lending, self)
        super().__init__(loop, RequestReader(self, limits=limits, load=load), loan)
        self._peer: str | None = None  # if it has a place
        self._share = Share()
        self._owner: Share | None = None  # once the guard has let a request of it in
        self._queue: deque[Request] = deque(maxlen=_QUEUED_COUNT_MAX)
        self._task: asyncio.Task[None] | None = None
        self._is_busy = False
        self._owes_continue = False
        self._is_write_paused = False
        self._discarded_bytes = 0
        # Moments on the loop's clock.
        self._was_active = False  # since the last sweep, which then moves the moment of idleness
        self.opened_s = self._idle_since_s = loop.time()
        self._stalled_since_s = 0.0

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast("asyncio.Transport", transport)  # uvloop's are not of that class
        self._transport = stream
        stream.set_write_buffer_limits(high=self._limits.write_buffer_bytes)
        ssl_object = stream.get_extra_info("ssl_object")
        if ssl_object is not None and self._tls is not None:
            self._is_encrypted = True
            self._certificate = ClientCertificate(ssl_object, self._tls)
            if self._requires_certificate and not self._certificate.counts():
                self._refusal = certificate_required()
        load = self._load
        load.connections.add(self)
        if load.is_draining:
            load.placeless_count += 1
            self._abort()
        elif self._enter(peer_of(stream)) and self._refusal is not None:
            self._reader.refuse(self._refusal)

    def _enter(self, peer: str) -> bool:
        """Whether there is a place; if not it is told so, unless many are being told already."""
        found = take_place(self, peer, self._load, self._limits, makes_room=self._makes_room)
        if isinstance(found, Share):
            self._peer, self._share = peer, found
            return True
        if found is None:
            self._abort()
        else:
            self._reader.refuse(found)
        return False

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        if reader.is_ended:
            self._heard_s = self._loop.time()
            self._discarded_bytes += len(data)
            if self._discarded_bytes > self._limits.linger_bytes_max:
                self._abort()
            return
        reader.feed(data)
        if reader.phase == BETWEEN:
            self._receiving_since_s = None
        elif self._receiving_since_s is None:
            self._receiving_since_s = self._loop.time()

    def eof_received(self) -> bool:
        """The caller sends nothing more; it may still wait for answers.

        Not over TLS, where the end of one side is the end of both: what was begun is carried out.
        """
        self._has_eof = True
        self._reader.end()
        self._receiving_since_s = None
        is_awaited = not self._is_unoccupied() and not self._is_encrypted
        if self._closing_since_s is None and is_awaited:
            return True
        # The transport closes now, once it has sent what is left: not for ever.
        self._closing_since_s = self._loop.time()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio's signature)
        self._transport = None
        self._end_loan()
        self._reader.end()
        for request in self._queue:
            self._release(request)
        self._queue.clear()
        self._leave()
        if self._load.is_draining:
            self._load.drained_some()

    def _disown(self) -> None:
        if self._owner is not None:
            self._owner.connection_count -= 1

    def _leave(self) -> None:
        self._disown()
        load = self._load
        load.connections.discard(self)
        load.unproven.discard(self)
        if self._peer is None:
            load.placeless_count -= 1
        else:
            load.went(self._peer)

    def pause_writing(self) -> None:
        self._is_write_paused = True
        self._stalled_since_s = self._loop.time()
        self._pause_reading()

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._advance()

    # What the reader calls.

    def request_received(self, request: Request) -> None:
        self._receiving_since_s = None
        self._owes_continue = False
        request.started_s = perf_counter()
        if self._certificate is not None:
            request.ready = self._show(request) or request.ready
            if self._certificate.is_outdated():  # the sweep never meets who is always sending
                self._reader.end()
        if self._is_busy or self._queue or self._is_write_paused:
            self._queue.append(request)
            if len(self._queue) >= self._limits.pipelined_count_max:
                self._pause_reading()
        else:
            self._begin(request)

    def body_announced(self, request: Request) -> bytes | None:
        refusal = self._show(request) or self._dispatcher.stranger(request)
        if refusal is None and self._owner is None:
            refusal = self._prove(request)
        if refusal is None:
            name = request.caller.name
            request.share = self._share if name is None else self._load.share_of_identity(name)
        return refusal

    def body_wanted(self, request: Request) -> bytes | None:
        refusal = self._dispatcher.refusal(request)
        if refusal is None:
            # Behind requests that are not answered yet it has to wait for its turn.
            self._owes_continue = True
            self._pay_continue()
        return refusal

    def _show(self, request: Request) -> bytes | None:
        return show_certificate(request, self._certificate, is_required=self._requires_certificate)

    # What the door calls.

    def sweep(self, now_s: float) -> None:
        """End what has been waiting for its caller too long."""
        limits = self._limits
        if self._closing_since_s is not None:
            allowed_s = limits.linger_s if self._is_lingering else limits.write_stall_s
            is_silent = self._is_lingering and now_s - self._heard_s > limits.linger_silence_s
            if is_silent or now_s - self._closing_since_s > allowed_s:
                self._abort()
        elif self._is_write_paused:
            if now_s - self._stalled_since_s > limits.write_stall_s:
                self._abort()
        elif self._receiving_since_s is not None:
            is_late = now_s - self._receiving_since_s > limits.receive_s
            if is_late and not self._is_reading_paused:
                self._reader.refuse(too_slow(limits.receive_s))
        elif self._certificate is not None and self._certificate.is_outdated():
            self._verify_anew()
        elif self._was_active:
            self._was_active = False
            self._idle_since_s = now_s
        elif self._is_unoccupied() and now_s - self._idle_since_s > limits.idle_s:
            self._close_if_quiet()

    def _verify_anew(self) -> None:
        """Take no more requests: whoever comes back shows his certificate again."""
        if self._is_unoccupied():
            self._close()
        else:
            self._reader.end()  # what is queued is answered, and the last answer says that it ends

    def start_draining(self) -> None:
        """Close as soon as what has been begun is answered."""
        self._close_if_quiet()

    def _close_if_quiet(self) -> None:
        if self._loan is not None:
            self._loan.take_back()  # something may have come meanwhile
        if self._is_unoccupied() and self._reader.phase == BETWEEN:
            self._close()

    def abort(self) -> None:
        """Close now."""
        self._abort()

    @property
    def is_waiting(self) -> bool:
        """Nothing is done for its caller at this moment."""
        return not self._is_busy

    # Requests and answers.

    def _is_unoccupied(self) -> bool:
        return not self._is_busy and not self._queue

    def _begin(self, request: Request) -> None:
        try:
            work = request.ready or self._dispatcher.admit(request)
        except Exception as error:  # noqa: BLE001 (a bug of ours must not leave a caller waiting)
            work = failure_reply(request, error, self._load)
        if self._owner is None and request.let_in_by >= 0 and request.ready is None:
            refusal = self._prove(request)
            if refusal is not None:
                if isinstance(work, Coroutine):
                    work.close()
                work = refusal
        if isinstance(work, bytes):
            self._release(request)
            self._answer(request, work)
        elif isinstance(work, Opening):
            self._release(request)
            self._is_busy = True
            # Not now: the read that brought the request may have brought more.
            self._loop.call_soon(self._hand_over, request, work)
        else:
            self._is_busy = True
            self._task = task = self._loop.create_task(self._serve(request, work))
            self._load.tasks.add(task)
        self._load.changed()

    async def _serve(self, request: Request, work: Awaitable[bytes]) -> None:
        try:
            reply = await work
        except Exception as error:  # noqa: BLE001 (a bug of ours must not leave a caller waiting)
            reply = failure_reply(request, error, self._load)
        finally:
            self._is_busy = False
            load = self._load
            self._release(request)
            load.tasks.discard(self._task)
            load.changed()
            if load.is_draining:
                load.drained_some()
        self._answer(request, reply)
        if self._queue or self._is_reading_paused or self._owes_continue:
            self._advance()
        elif self._loan is not None and is_usual(request):
            self._lend(self._loan, request.fields[b"host"])

    # The socket, while native threads read and write it (lending.Side).

    def _lend(self, loan: Loan, host: bytes) -> None:
        transport = self._open_transport()
        is_over = self._has_eof or self._load.is_leaving or self._closing_since_s is not None
        is_quiet = self._is_unoccupied() and self._reader.is_clean and not self._is_write_paused
        if transport is None or self._is_encrypted or is_over or not is_quiet:
            return
        if not transport.get_write_buffer_size():
            loan.begin(transport, host)

    def took_back(self, held: bytes, *, is_busy: bool) -> None:
        self._is_busy = is_busy
        if held:
            self.data_received(held)

    def answered(self, reply: bytes, route_name: str | None) -> None:
        self._is_busy = False
        request = Request(b"POST", b"", [], keep_alive=True)
        self._say(request, reply)
        if route_name is not None:
            request.route_name, request.started_s = route_name, perf_counter()
            self._count(request, reply_status(reply))
        self._advance()

    def was_active(self) -> None:
        self._was_active = True

    def _prove(self, request: Request) -> bytes | None:
        """The guard has let it in. The answer, if its identity has its share of places already."""
        name, makes_room = request.caller.name, self._makes_room
        found = prove(self, name, self._load, self._limits, makes_room=makes_room)
        if isinstance(found, TooManyConnections):
            return error_reply(found)
        self._owner = found
        return None

    def _hand_over(self, request: Request, opening: Opening) -> None:
        """Become a check stream, which this object has no part in any more."""
        self._is_busy = False
        transport = self._open_transport()
        if transport is None:
            return
        try:
            if self._load.is_leaving:
                raise ShuttingDown("This instance is stopping; connect to another one.")
            if self._queue or self._has_eof or self._reader.phase != BETWEEN:
                raise out_of_step()
            opening.begin(transport, self._certificate)
        except HalfHitchError as error:
            self._answer(request, error_reply(error))
            self._advance()
            return
        self._transport = None
        self._reader.end()
        self._load.connections.discard(self)
        self._disown()
        self._count(request, 200)

    def _answer(self, request: Request, reply: bytes) -> None:
        self._say(request, reply)
        self._count(request, reply_status(reply))

    def _say(self, request: Request, reply: bytes) -> None:
        transport = self._open_transport()
        if transport is not None and self._closing_since_s is None:
            reader = self._reader
            is_last = not self._queue and (
                reader.is_ended or (self._load.is_leaving and reader.phase == BETWEEN)
            )
            if request.method == b"HEAD":
                reply = without_body(reply)
            if is_last:
                transport.write(closing(reply))
                self._close(lingers=request.ready is not None)
            else:
                transport.write(reply if request.is_http_11 else staying_open(reply))
                self._was_active = True

    def _count(self, request: Request, status: int) -> None:
        if self._on_request is not None:
            elapsed_s = perf_counter() - request.started_s
            try:
                self._on_request(request.route_name, status, elapsed_s, request.trace)
            except Exception:  # noqa: BLE001 (who counts must not stop what is counted)
                _log.exception(
                    "counting a request failed", extra={"action": "http_on_request_failed"}
                )

    def _advance(self) -> None:
        """Begin what is queued, as far as possible; then read on."""
        while self._queue and not self._is_busy and not self._is_write_paused:
            self._begin(self._queue.popleft())
        has_room = len(self._queue) * 2 <= self._limits.pipelined_count_max
        if self._is_reading_paused and not self._is_write_paused and has_room:
            self._resume_reading()
        self._pay_continue()

    def _pay_continue(self) -> None:
        transport = self._open_transport()
        if self._owes_continue and self._is_unoccupied() and transport is not None:
            self._owes_continue = False
            transport.write(CONTINUE)

    def _release(self, request: Request) -> None:
        self._load.buffered_bytes -= len(request.body)
        request.share.held_bytes -= len(request.body)
        if self._transport is None and self._peer is not None:
            self._load.forget(self._peer)
