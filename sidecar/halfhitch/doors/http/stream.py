"""The check stream: a connection that has become a way to a live producer.

Owns what follows a `GET /v1/checks`: what the caller must have said in it, the lines sent, the
heartbeats of both sides, and the end. Which check goes to whom is the desk's to know.

A request that is in order gives an `Opening`. Once the connection has answered all requests before
it, it hands its transport over to a `CheckStream` and has no part in it any more: nothing of what
is special about a stream is on the way of other requests.

Invariants:

- To the desk a stream is connected once, after its head has been written, and disconnected once,
  before it is closed on purpose and otherwise as soon as it is known to be broken.
- A producer that does not read is offered no more: one check may pass the limit of the write
  buffer, the next is not taken.
- A line is sent at least every `heartbeat_s`, and what the other side has not acknowledged after
  `unacknowledged_s` ends the connection. A producer whose machine has gone is noticed within the
  sum of both, which no read would tell.
- Whoever has lost the right to answer for the group, or whose token counts no more, is asked no
  more: when identities change, a stream is looked at again before anything else is sent on it. So
  is one whose certificate was verified by authorities that have changed since.
- The producer sends line breaks or nothing. Bytes that are anything else end the stream: they
  could be a request, and there is no answering it here.
"""

import asyncio
import logging
from typing import Final

from halfhitch.access import Access, Grant, Right
from halfhitch.core.model import ProducerGroup
from halfhitch.doors.half_open import notice_half_open
from halfhitch.doors.holding import peer_of
from halfhitch.doors.http.errors import (
    ChecksNotServed,
    MalformedRequest,
    TooManyConnections,
    error_reply,
)
from halfhitch.doors.http.limits import Limits
from halfhitch.doors.http.load import Load
from halfhitch.doors.http.replies import STREAM_HEAD, STREAM_HEAD_10, STREAM_PROMISE
from halfhitch.doors.http.requests import Request
from halfhitch.doors.tls import ClientCertificate
from halfhitch.errors import HalfHitchError, InvalidRequest
from halfhitch.service.checking.api import AT_ONCE_ELSE, CheckDesk
from halfhitch.service.transactions.admission import is_name
from halfhitch.wire.check import HEARTBEAT_LINE, Check, encode
from halfhitch.wire.half import ID_BYTES_MAX
from halfhitch.wire.plain import WITHOUT_HIDDEN, is_plain

_log = logging.getLogger(__name__)

#: What the producer promises with Half-Heartbeat, in seconds.
_BEAT_S_MAX: Final = 60
#: What it may ask for with Half-Checks-At-Once.
_AT_ONCE_MAX: Final = 10_000
#: Promised beats in a row that may be missing.
_BEATS_MISSED_MAX: Final = 3
_NAME_CHARACTERS_MAX: Final = 100
_STREAM: Final = "a check stream"
#: Nor can a page send these.
_LOCKS: Final = (b"half-token", b"authorization")
_LINE_BREAKS: Final = b"\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"


class Streams:
    """The check streams of one door; makes Openings out of requests."""

    def __init__(
        self, desk: CheckDesk | None, *, limits: Limits, load: Load, access: Access
    ) -> None:
        self._desk = desk
        self._access = access
        self._limits = limits
        self._load = load

    def open(self, request: Request) -> "bytes | Opening":
        """What a `GET /v1/checks` (or HEAD) leads to."""
        try:
            opening = self._opening(request)
        except HalfHitchError as error:
            return error_reply(error)
        return STREAM_PROMISE if request.method == b"HEAD" else opening

    def _opening(self, request: Request) -> "Opening":
        producer_group = _group_of(request)
        request.caller.require(Right.CHECK, producer_group)
        if not request.half and not any(lock in request.fields for lock in _LOCKS):
            raise InvalidRequest(
                "GET /v1/checks needs a header: name yourself with Half-Producer-Name, such as "
                "orders-7, or promise a sign of life with Half-Heartbeat: 3. (A page in a browser "
                "can send neither, and so cannot answer checks.)"
            )
        beat_s = request.number(b"half-heartbeat")
        if beat_s is not None and not 1 <= beat_s <= _BEAT_S_MAX:
            raise InvalidRequest(
                f"Half-Heartbeat is how many seconds lie at most between two line breaks that "
                f"you send: a whole number from 1 to {_BEAT_S_MAX}, such as 3."
            )
        name = request.text(b"half-producer-name")
        if name is not None and not (0 < len(name) <= _NAME_CHARACTERS_MAX and is_plain(name)):
            raise InvalidRequest(
                f"Half-Producer-Name must be 1 to {_NAME_CHARACTERS_MAX} printable characters; "
                "it is shown to people, for instance orders-7."
            )
        at_once = request.number(b"half-checks-at-once")
        if at_once is not None and not 1 <= at_once <= _AT_ONCE_MAX:
            raise InvalidRequest(
                "Half-Checks-At-Once is how many checks you want to have at a time: a whole "
                f"number from 1 to {_AT_ONCE_MAX}, such as 64."
            )
        self._desk_with_room(producer_group, request.caller.name)
        return Opening(self, request, producer_group, name, beat_s, at_once or AT_ONCE_ELSE)

    def begin(
        self,
        opening: "Opening",
        transport: asyncio.Transport,
        certificate: ClientCertificate | None,
    ) -> None:
        """Take the transport over from its connection. Raises BackendError, and then has not."""
        # Asked again: others may have come in between.
        desk = self._desk_with_room(opening.producer_group, opening.caller.name)
        stream = CheckStream(
            opening,
            transport,
            certificate,
            desk=desk,
            limits=self._limits,
            load=self._load,
            access=self._access,
        )
        transport.set_protocol(stream)
        stream.begin()

    def _desk_with_room(self, producer_group: ProducerGroup, identity: str | None) -> CheckDesk:
        if self._desk is None:
            raise ChecksNotServed(
                "This instance does not check back; connect to one that does.",
                retry_after_s=self._limits.retry_after_s,
            )
        load, limits = self._load, self._limits
        if load.stream_count >= limits.stream_count_max:
            sentence = (
                "The door has as many check streams as it takes; let several workers of a group "
                "share one, or raise http.connections_max."
            )
            load.refused("full", f"group {producer_group}", sentence)
            raise TooManyConnections(sentence, retry_after_s=limits.retry_after_s)
        if load.group_streams[producer_group] >= limits.stream_group_count_max:
            sentence = (
                f"Your producer group has {limits.stream_group_count_max} check streams of this "
                "door, and others need some too; let several workers share one, or raise "
                "http.streams_group_max."
            )
            load.refused("group", f"group {producer_group}", sentence, _STREAM)
            raise TooManyConnections(sentence, retry_after_s=limits.retry_after_s)
        is_told_apart = identity is not None
        if is_told_apart and load.identity_streams[identity] >= limits.stream_identity_count_max:
            sentence = (
                f"Your identity has {limits.stream_identity_count_max} check streams of this door, "
                "for all its producer groups together, and others need some too; let several "
                "workers of a group share one, or raise http.connections_max."
            )
            load.refused("identity", f"identity {identity}", sentence, _STREAM)
            raise TooManyConnections(sentence, retry_after_s=limits.retry_after_s)
        return self._desk


class Opening:
    """A request for a stream that will be granted when its turn has come."""

    __slots__ = ("_streams", "at_once", "beat_s", "caller", "is_chunked", "name", "producer_group")

    def __init__(
        self,
        streams: Streams,
        request: Request,
        producer_group: ProducerGroup,
        name: str | None,
        beat_s: int | None,
        at_once: int,
    ) -> None:
        self._streams = streams
        self.caller = request.caller
        self.is_chunked = request.is_http_11
        self.producer_group = producer_group
        self.name = name
        self.beat_s = beat_s
        self.at_once = at_once

    def begin(
        self, transport: asyncio.Transport, certificate: ClientCertificate | None = None
    ) -> None:
        """Its turn has come. Raises BackendError, and the transport is still the connection's."""
        self._streams.begin(self, transport, certificate)


class CheckStream(asyncio.Protocol):
    """A ProducerLink over a connection of the door."""

    def __init__(
        self,
        opening: Opening,
        transport: asyncio.Transport,
        certificate: ClientCertificate | None,
        *,
        desk: CheckDesk,
        limits: Limits,
        load: Load,
        access: Access,
    ) -> None:
        self._transport = transport
        self._certificate = certificate
        self._peer = peer_of(transport)  # counted as the connection's that this one was
        self._grant = Grant(access, opening.caller, Right.CHECK, opening.producer_group)
        self._desk = desk
        self._limits = limits
        self._load = load
        self._is_chunked = opening.is_chunked
        self._producer_group = opening.producer_group
        self._identity = opening.caller.name
        self._at_once = opening.at_once
        self._name = opening.name or _peer_name(transport)
        self._is_connected = False
        self._is_write_paused = False
        # Moments on the loop's clock.
        self._loop = asyncio.get_running_loop()
        now_s = self._loop.time()
        self._beaten_s = now_s
        self._heard_s = now_s
        self._stalled_since_s = now_s
        self._closing_since_s: float | None = None
        silence_s = None if opening.beat_s is None else opening.beat_s * _BEATS_MISSED_MAX
        self._silence_s_max: float | None = silence_s

    def begin(self) -> None:
        """Write the head, and be live."""
        self._load.connections.add(self)
        self._load.stream_begins(self._producer_group, self._identity)
        notice_half_open(self._transport, self._limits.unacknowledged_s)
        head = STREAM_HEAD if self._is_chunked else STREAM_HEAD_10
        self._transport.write(head + self._framed(HEARTBEAT_LINE))
        self._is_connected = True
        more = self._load.stream_lines.take()
        if more is not None:
            _log.info(
                "producer %s of group %s holds a check stream%s",
                self._name,
                self._producer_group,
                more,
                extra={"action": "check_stream_opened"},
            )
        try:
            self._desk.connect(self)
        except Exception:  # noqa: BLE001 (a bug of ours; the producer will come again)
            _log.exception("connecting failed", extra={"action": "check_stream_connect_failed"})
            self._end("a fault of Half Hitch")

    # What the desk calls.

    @property
    def producer_group(self) -> ProducerGroup:
        """Whom it leads to."""
        return self._producer_group

    @property
    def name(self) -> str:
        """As the producer calls itself, or where it is."""
        return self._name

    @property
    def at_once(self) -> int:
        """As many checks as the producer wants to have at a time."""
        return self._at_once

    def offer(self, check: Check) -> bool:
        """Send the check, unless the producer does not read, or the stream is ending."""
        if not self._is_connected or self._is_write_paused or self._transport.is_closing():
            return False
        if not self._is_allowed():
            return False
        self._transport.write(self._framed(encode(check) + b"\n"))
        return True

    # What the transport calls.

    def data_received(self, data: bytes) -> None:
        self._heard_s = self._loop.time()
        if data.strip(_LINE_BREAKS):
            self._end("the producer sent something else than line breaks")

    def eof_received(self) -> bool:
        self._end("the producer closed it")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._disconnect("the connection was lost" if exc else "it was closed")
        load = self._load
        if self in load.connections:
            load.connections.discard(self)
            load.stream_ended(self._producer_group, self._identity)
            load.went(self._peer)
            if load.is_draining:
                load.drained_some()

    def pause_writing(self) -> None:
        self._is_write_paused = True
        self._stalled_since_s = self._loop.time()

    def resume_writing(self) -> None:
        self._is_write_paused = False

    # What the door calls.

    def sweep(self, now_s: float) -> None:
        """Beat, and end what has been without a sign of life too long."""
        limits = self._limits
        if self._closing_since_s is not None:
            if now_s - self._closing_since_s > limits.write_stall_s:
                self._transport.abort()
            return
        if not self._is_allowed():
            return
        if self._silence_s_max is not None and now_s - self._heard_s > self._silence_s_max:
            self._disconnect(f"nothing came for {self._silence_s_max:g} s")
            self._transport.abort()
        elif self._is_write_paused:
            if now_s - self._stalled_since_s > limits.write_stall_s:
                self._disconnect(f"nothing was read for {limits.write_stall_s:g} s")
                self._transport.abort()
        elif now_s - self._beaten_s >= limits.heartbeat_s and not self._transport.is_closing():
            self._beaten_s = now_s
            self._transport.write(self._framed(HEARTBEAT_LINE))

    def start_draining(self) -> None:
        """End at once: the producer is to go to another instance."""
        self._end("this instance is stopping")

    def abort(self) -> None:
        """Close now."""
        self._disconnect("this instance is stopping")
        self._transport.abort()

    # The rest.

    def _is_allowed(self) -> bool:
        """By the identities there are now; else it has ended."""
        if not self._grant.holds():
            self._end("it has no right to answer for the group any more")
            return False
        if self._certificate is not None and self._certificate.is_outdated():
            self._end("its certificate was verified by authorities that have changed since")
            return False
        return True

    def _framed(self, line: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(line), line) if self._is_chunked else line

    def _end(self, reason: str) -> None:
        """Say that this was all, and close as soon as it has been sent."""
        self._disconnect(reason)
        if self._closing_since_s is None and not self._transport.is_closing():
            self._closing_since_s = self._loop.time()
            if self._is_chunked:
                self._transport.write(_LAST_CHUNK)
            self._transport.close()

    def _disconnect(self, reason: str) -> None:
        if not self._is_connected:
            return
        self._is_connected = False
        more = self._load.stream_lines.take()
        if more is not None:
            _log.info(
                "the check stream of producer %s of group %s has ended: %s%s",
                self._name,
                self._producer_group,
                reason,
                more,
                extra={"action": "check_stream_ended"},
            )
        try:
            self._desk.disconnect(self)
        except Exception:  # noqa: BLE001 (nothing may keep the connection from being closed)
            _log.exception("disconnecting failed", extra={"action": "check_stream_end_failed"})


def out_of_step() -> HalfHitchError:
    """The caller has sent more behind its request for a stream, or has ended its sending side."""
    return MalformedRequest(
        "Nothing may follow GET /v1/checks on its connection but line breaks, and the sending "
        "side must stay open; use another connection for other requests."
    )


def _group_of(request: Request) -> ProducerGroup:
    producer_group = request.read_parameter("producer_group")
    if not is_name(producer_group):
        raise InvalidRequest(
            f"producer_group must be 1 to {ID_BYTES_MAX} bytes of UTF-8 {WITHOUT_HIDDEN}, exactly "
            "as in your prepares."
        )
    return ProducerGroup(producer_group)


def _peer_name(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    if isinstance(peer, tuple) and len(peer) >= 2:
        host = f"[{peer[0]}]" if ":" in peer[0] else peer[0]
        return f"{host}:{peer[1]}"
    return "unix socket"
