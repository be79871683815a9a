"""One connection of a RocketMQ client: frames in, answers out, in whatever order they are ready.

Remoting answers carry the number of their request, so many requests of a connection are worked on
at once, and nothing waits behind another. The answers of one round of the loop leave in one write.

Invariants:

- Whatever bytes arrive, no exception reaches the event loop: each failure is an answer, or one
  line in the log and the end.
- Who does not read gets no more work done: while the write buffer is full, or too many requests
  are in flight, nothing is read.
- A request once begun is carried out even if its client is gone; only its answer is dropped.

Deadlines are looked after by one sweep of the door, not by timers.
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

from halfhitch.access import Grant
from halfhitch.doors.half_open import notice_half_open
from halfhitch.doors.rocketmq.addresses import NOWHERE, address_of, ip_host, is_encrypted, shown
from halfhitch.doors.rocketmq.arrivals import Arrivals
from halfhitch.doors.rocketmq.dispatch import Dispatcher
from halfhitch.doors.rocketmq.flight import Job
from halfhitch.doors.rocketmq.lending import Lender, Lending
from halfhitch.doors.rocketmq.limits import Limits
from halfhitch.doors.rocketmq.load import Load
from halfhitch.doors.rocketmq.offsets import Address
from halfhitch.doors.rocketmq.places import Groups, Places
from halfhitch.doors.rocketmq.unfinished import Taker
from halfhitch.doors.rocketmq.unread import unread
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.faults import FrameError
from halfhitch.wire.remoting.frame import Frames, starts_tls
from halfhitch.wire.remoting.messages import Host
from halfhitch.wire.remoting.requests import Frame, Send

_OPAQUE_MAX: Final = 2**31 - 1
#: A TLS record that says "handshake failure", for clients that want what is not configured here.
_TLS_REFUSAL: Final = b"\x15\x03\x03\x00\x02\x02\x28"


@dataclass(frozen=True, slots=True)
class Shared:
    """What all connections of a door share."""

    dispatcher: Dispatcher
    places: Places | None  # None: this instance does not check back
    limits: Limits
    load: Load
    loop: asyncio.AbstractEventLoop
    #: host, or host:port, that clients are told; None: what they dialled.
    advertised: tuple[str, int | None] | None
    requires_tls: bool
    arrivals: Arrivals
    asks_for_signatures: bool = False
    lending: Lending | None = None


class Connection(asyncio.Protocol):
    """The door's side of one connection."""

    __slots__ = (
        "_address",
        "_closing_since_s",
        "_dispatcher",
        "_frames",
        "_groups",
        "_held_back_until_s",
        "_held_bytes",
        "_identity",
        "_in_flight",
        "_is_first",
        "_is_over",
        "_is_proven",
        "_is_reading_paused",
        "_is_write_paused",
        "_lender",
        "_limits",
        "_load",
        "_loop",
        "_name",
        "_opaque",
        "_out",
        "_receiving_since_s",
        "_seen_s",
        "_shared",
        "_stalled_since_s",
        "_taker",
        "_transport",
        "_was_active",
        "peer",
    )

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._dispatcher = shared.dispatcher
        self._limits = shared.limits
        self._load = shared.load
        self._loop = shared.loop
        self._frames = Frames(shared.limits.frame_bytes_max)
        self._held_bytes = 0
        self._lender: Lender | None = None
        if shared.lending is not None:
            self._lender = Lender(shared.lending, self, shared.dispatcher.refuse)
        self._transport: asyncio.Transport | None = None
        self.peer: Host = NOWHERE
        self._is_proven = False
        self._identity: str | None = None  # that it was proven for
        self._address: Address | None = None
        self._groups = Groups(self, shared.places, NOWHERE)
        self._taker = Taker(is_stranger=False, name="")
        self._out: list[bytes] = []
        self._in_flight = self._opaque = 0
        self._name: str | None = None  # of the identity that has asked last
        self._is_first = True
        self._is_over = False  # nothing is read or answered any more
        self._is_reading_paused = self._is_write_paused = False
        self._was_active = False  # since the last sweep
        # Moments on the loop's clock.
        self._seen_s = shared.loop.time()
        self._stalled_since_s = self._held_back_until_s = 0.0
        self._receiving_since_s: float | None = None
        self._closing_since_s: float | None = None

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast("asyncio.Transport", transport)  # uvloop's are not of that class
        self._transport = stream
        stream.set_write_buffer_limits(high=self._limits.write_buffer_bytes)
        load = self._load
        self.peer = ip_host(stream.get_extra_info("peername"))
        self._groups = Groups(self, self._shared.places, self.peer)
        self.known_as(None)
        notice_half_open(stream, self._limits.unacknowledged_s)
        load.connections.add(self)
        load.stats.connection_count += 1
        refused = self._shared.arrivals.enter(self, self.peer[0])
        if refused is not None:
            load.refused(refused[0], shown(self.peer), refused[1])
        if refused is not None or load.is_draining:
            self._close()
        elif self._shared.requires_tls and not is_encrypted(stream):
            self._end("it does not speak TLS, which rocketmq.tls_required asks for")

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        if self._is_first:
            self._is_first = False
            if starts_tls(data) and not is_encrypted(self._transport):
                self._refuse_tls()
                return
        lender = self._lender
        if lender is None or not lender.is_connected:
            self._read(data)
            return
        self._read(data, lender)
        if lender.may_lend:
            self._lend(lender)

    def _read(self, data: bytes, lender: Lender | None = None) -> None:
        frames = self._frames
        self._was_active = True
        try:
            if lender is not None:
                data = lender.feed(data, self._load.room(self._limits, self._in_flight))
            for frame in frames.feed(data) if data else ():
                self._take(frame)
        except FrameError as error:
            self._end(f"what it sends cannot be read: {error}")
            return
        except Exception as error:  # noqa: BLE001 (a bug of ours must not reach the event loop)
            self._load.say_fault("reading from a RocketMQ client", error, "rocketmq_bug")
            self._end("a fault of Half Hitch")
            return
        if frames.broken is not None:
            self._end(f"what it sends cannot be read: {frames.broken}")
            return
        held_bytes = frames.held_bytes + (0 if self._lender is None else self._lender.held_bytes)
        if held_bytes or self._held_bytes:
            self._hold(held_bytes)

    def eof_received(self) -> bool:
        """No client half-closes: it is gone."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        transport, lender = self._transport, self._lender
        if exc is not None and transport is not None:  # perhaps before all was read
            if lender is not None:
                lender.catch_up()
            for data in unread(transport):
                self.data_received(data)
        self._is_over = True
        self._transport = None
        self._out.clear()
        self._groups.forget()
        if lender is not None:
            lender.close()
        self._load.unfinished.hold(self, self._taker, 0)
        self._held_bytes = 0
        self._leave()
        if self._load.is_draining:
            self._load.drained_some()

    def _leave(self) -> None:
        load = self._load
        if self in load.connections:
            load.connections.discard(self)
            load.stats.connection_count -= 1
            load.went(self.peer[0])
            self._shared.arrivals.left(self, self._identity)

    def pause_writing(self) -> None:
        self._is_write_paused = True
        self._stalled_since_s = self._loop.time()
        self._pause_reading()

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._read_on()

    # Requests and answers (dispatch.Asker).

    def _take(self, frame: Frame) -> None:
        if frame.flag & codes.RESPONSE_FLAG:
            return  # we ask nothing that is answered so
        answer = self._dispatcher.admit(frame, self)
        if isinstance(answer, bytes):
            self._write(answer)
        elif answer is not None:
            self._work(frame, answer)

    @property
    def address(self) -> Address:
        """Where the client at the other end reaches us."""
        found = self._address
        if found is None:
            name = None if self._transport is None else self._transport.get_extra_info("sockname")
            found = self._address = address_of(name, self._shared.advertised)
        return found

    def known_as(self, name: str | None) -> None:
        """It has shown whose it is; None: it has not, or that counts no more.

        Asked for no signature, it is as well known as anybody.
        """
        if name is None:
            name = self.peer[0]
            self._taker = Taker(self._shared.asks_for_signatures, name)
        else:
            self._taker = Taker(is_stranger=False, name=name)

    def hold_back(self, seconds: float) -> None:
        """See dispatch.Asker; what was read with it is answered."""
        self._held_back_until_s = self._loop.time() + seconds
        self._pause_reading()
        self._loop.call_later(seconds, self._read_on)

    def prove(self, identity: str | None) -> None:
        """See dispatch.Asker."""
        if not self._is_proven:
            self._shared.arrivals.prove(self, identity)
            self._is_proven, self._identity = True, identity

    def _work(self, frame: Frame, job: Job) -> None:
        load = self._load
        load.flight.begun(job)
        self._name = job.name
        self.begun(1)
        task = self._loop.create_task(self._dispatcher.answer(frame, job))
        load.tasks.add(task)
        task.add_done_callback(partial(self._worked, job))

    def _worked(self, job: Job, task: "asyncio.Task[bytes | None]") -> None:
        self._load.tasks.discard(task)
        self._load.flight.done(job)
        job.work.close()  # it may have been cancelled before it began
        self.done(1, b"" if task.cancelled() else task.result() or b"")

    def begun(self, count: int) -> None:
        """So many more requests are in flight."""
        self._was_active = True
        self._in_flight += count
        self._load.stats.in_flight_count += count
        is_full = self._in_flight >= self._limits.pipelined_count_max
        if is_full or self._load.flight.is_past(self._name):
            self._pause_reading()

    def done(self, count: int, content: bytes) -> None:
        """So many requests have ended, and this answers them."""
        self._in_flight -= count
        load = self._load
        load.stats.in_flight_count -= count
        if load.is_draining:
            load.drained_some()
        if content:
            self._write(content)
        if self._is_reading_paused:
            self._read_on()

    # Requests that go the native way (dispatch.Asker, lending.LoopSide).

    def allow(self, send: Send, group: str, topic: str) -> None:
        """The next ones like this one may go the native way."""
        lender = self._lender  # the rest of a frame that is held here must come here too
        if lender is not None and not self._is_over and not self._frames.held_bytes:
            lender.allow(send, group, topic, self.address.message_ids.make(0))

    def _lend(self, lender: Lender) -> None:
        """Have the socket read and written natively, if nothing stands in the way."""
        transport, limits = self._transport, self._limits
        is_busy = self._is_over or self._is_reading_paused or self._is_write_paused
        is_full = self._held_bytes > 0 or self._load.room(limits, self._in_flight) <= 0
        if transport is None or is_busy or is_full or self._out or is_encrypted(transport):
            return
        if transport.is_closing() or transport.get_write_buffer_size():
            return
        lender.lend(transport, (limits.pipelined_count_max, limits.in_flight_count_max))

    def _take_back(self) -> None:
        if self._lender is not None:
            self._lender.take_back()

    def read(self, data: bytes) -> None:
        """See lending.LoopSide."""
        if not self._is_over:
            self._read(data)

    def read_on(self) -> None:
        """See lending.LoopSide."""
        transport = self._transport
        if self._lender is not None and not self._is_over:
            self._hold(self._frames.held_bytes + self._lender.held_bytes)
        if transport is not None and not self._is_reading_paused and not transport.is_closing():
            transport.resume_reading()

    def _write(self, content: bytes) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(content)

    def _flush(self) -> None:
        out, transport = self._out, self._transport
        if not out or transport is None or transport.is_closing():
            out.clear()
            return
        content = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        if self._lender is not None and self._lender.is_lent:
            self._lender.write(content)
        else:
            transport.write(content)

    # Producer groups, and what is asked of them (links.Way).

    def register(self, producer_group: str, grant: Grant, *, has_namespace_field: bool) -> None:
        """Checks of the group may be asked over this connection. Raises Overloaded."""
        if not (self._is_over or self._load.is_draining):
            self._groups.register(
                producer_group,
                grant,
                lambda: self.address,
                has_namespace_field=has_namespace_field,
            )

    def unregister(self, producer_group: str) -> None:
        """They may not any more."""
        self._groups.unregister(producer_group)

    def can_ask(self) -> bool:
        """Whether a check can be sent now."""
        transport = self._transport
        is_mute = self._is_over or self._is_write_paused or self._load.is_draining
        return not (is_mute or transport is None or transport.is_closing())

    def ask(self, content: bytes) -> None:
        """Send a request of ours."""
        self._write(content)

    def next_opaque(self) -> int:
        """Counted apart from the client's own numbers."""
        self._opaque = (self._opaque + 1) & _OPAQUE_MAX
        return self._opaque

    # What the door calls.

    def sweep(self, now_s: float) -> None:
        """End what has been silent, slow or stalled too long."""
        limits = self._limits
        self._groups.forget(all_of_them=False)
        if self._load.room(limits, self._in_flight) <= 0:
            self._take_back()
        if self._was_active:
            self._was_active = False
            self._seen_s = now_s
        if self._closing_since_s is not None:
            if now_s - self._closing_since_s > limits.write_stall_s:
                self.abort()
        elif self._is_write_paused:
            if now_s - self._stalled_since_s > limits.write_stall_s:
                self._load.say_closed(
                    self.peer, f"it has read nothing for {limits.write_stall_s:g} s"
                )
                self.abort()
        elif self._receiving_since_s is not None and not self._is_reading_paused:
            if now_s - self._receiving_since_s > limits.receive_s:
                self._end(f"a frame was not complete after {limits.receive_s:g} s")
        elif self._is_reading_paused:
            self._read_on()  # others may have made room
        elif self._in_flight == 0:
            silence_s = limits.last_word_s if self._load.is_draining else limits.idle_s
            if now_s - self._seen_s > silence_s:
                self._close()

    def start_draining(self) -> None:
        """No checks any more; the sweep closes it once it is silent."""
        self._take_back()
        self._groups.forget()

    def make_room(self) -> None:
        """See arrivals.Comer."""
        self._leave()
        self.abort()

    def abort(self) -> None:
        """Close now."""
        self._is_over = True
        self._take_back()
        self._groups.forget()
        if self._transport is not None:
            self._closing_since_s = self._loop.time()
            self._transport.abort()

    # Reading, and the end.

    def cut_off(self, reason: str) -> None:
        """See unfinished.Holder."""
        self._held_bytes = 0
        self._frames = Frames(self._limits.frame_bytes_max)
        self._end(reason)

    def _hold(self, held_bytes: int) -> None:
        """An unfinished frame takes memory; all of them together are bounded."""
        self._held_bytes = held_bytes
        if not held_bytes:
            self._receiving_since_s = None
        elif self._receiving_since_s is None:
            self._receiving_since_s = self._loop.time()
        self._load.unfinished.hold(self, self._taker, held_bytes)

    def _pause_reading(self) -> None:
        self._take_back()
        transport = self._transport
        if transport is not None and not self._is_reading_paused and not transport.is_closing():
            self._is_reading_paused = True
            transport.pause_reading()

    def _read_on(self) -> None:
        is_full = self._in_flight * 2 > self._limits.pipelined_count_max
        is_full = is_full or self._load.flight.is_past(self._name)
        is_full = is_full or self._loop.time() < self._held_back_until_s
        transport = self._transport
        if self._is_reading_paused and not is_full and not self._is_write_paused:
            self._is_reading_paused = False
            if self._receiving_since_s is not None:
                self._receiving_since_s = self._loop.time()  # the wait was ours
            is_barred = self._lender is not None and self._lender.bars_reading
            if transport is not None and not is_barred and not transport.is_closing():
                transport.resume_reading()

    def _refuse_tls(self) -> None:
        if self._transport is not None:
            self._transport.write(_TLS_REFUSAL)
        self._end(
            "it wants TLS, and no certificate is configured: set rocketmq.tls_cert and "
            "rocketmq.tls_key, or tls.enable=false in the client"
        )

    def _end(self, reason: str) -> None:
        self._load.say_closed(self.peer, reason)
        self._close()

    def _close(self) -> None:
        if self._is_over:
            return
        self._flush()
        self._is_over = True
        self._take_back()
        self._groups.forget()
        self._closing_since_s = self._loop.time()
        if self._transport is not None:
            self._transport.close()
