"""From bytes to requests: httptools' callbacks, and every limit on what one request may be.

Owns the parser of one connection. Complete requests go to the sink, in order; so does the one
refusal of bytes that cannot be a request, as a `Request` that has its answer with it. After that
the reader has ended: what follows might be the body of what was refused, and reading it as
requests would let one caller slip requests in behind another's (request smuggling).

httptools (llhttp) is strict by default: it refuses a Content-Length beside a Transfer-Encoding,
duplicates of either, folded headers, bare line feeds, control characters. What it lets pass and
this door does not take is refused here.

No clock and no I/O: the connection looks after time.
"""

from typing import NoReturn, Protocol

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from halfhitch.doors.http.errors import (
    ExpectationFailed,
    HeadersTooLarge,
    HttpVersionNotSupported,
    MalformedRequest,
    error_reply,
)
from halfhitch.doors.http.faults import unread_reply
from halfhitch.doors.http.limits import Limits
from halfhitch.doors.http.load import Load
from halfhitch.doors.http.requests import Request
from halfhitch.errors import HalfHitchError, MessageTooLarge, Overloaded

# Where the parser is. Plain numbers: they are looked at several times per request.
BETWEEN = 0  # nothing, or only complete requests, have been read
_HEAD = 1
_BODY = 2
_UPGRADE = 3  # a head was read whose wish for another protocol is going to be passed over

#: What llhttp counts has no more digits, unless thousands of zeros stand before it: these would
#: be too much for int().
_LENGTH_DIGITS_MAX = 20
#: How a client's TLS handshake begins: record type, version; no method does.
_TLS_HELLO = b"\x16\x03"
#: How httptools says that it met the first line of HTTP/2.
_HTTP_2_PREFACE = "Pause on PRI/Upgrade"


#: Stands where no head has been read yet.
_NONE = Request(b"", b"", [], keep_alive=False)


class Sink(Protocol):
    """Who takes the requests."""

    def request_received(self, request: Request) -> None:
        """A request is complete, or refused; `ready` is its answer in that case."""
        ...

    def body_announced(self, request: Request) -> bytes | None:
        """A body is going to come; the answer says why nothing of it is taken."""
        ...

    def body_wanted(self, request: Request) -> bytes | None:
        """The caller waits with its body; the answer says why it may keep it."""
        ...


class _Stop(Exception):
    """Ends parsing from within a callback; the answer has been noted before."""


class RequestReader:
    """Reads the requests of one connection."""

    __slots__ = (
        "_answer",
        "_body",
        "_first_bytes",
        "_has_progressed",
        "_headers",
        "_is_begun",
        "_is_replay",
        "_limits",
        "_load",
        "_parser",
        "_read_bytes",
        "_request",
        "_silent_bytes",
        "_sink",
        "_target",
        "is_ended",
        "phase",
    )

    def __init__(self, sink: Sink, *, limits: Limits, load: Load) -> None:
        self._sink = sink
        self._limits = limits
        self._load = load
        self._parser = HttpRequestParser(self)
        self._is_begun = self._is_replay = False
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._request = _NONE
        self._body: bytes | bytearray = b""
        self._answer: bytes | None = None
        # What has been read of the current head: see _watch_progress.
        self._read_bytes = 0
        self._first_bytes = 0
        self._silent_bytes = 0
        self._has_progressed = False
        self.phase = BETWEEN
        self.is_ended = False

    def feed(self, data: bytes) -> None:
        """Take bytes as they came. Never raises because of what they are."""
        if self.is_ended:
            return
        was_between = self.phase == BETWEEN
        self._read_bytes = len(data)
        self._has_progressed = False
        rest: bytes | memoryview = data
        while True:
            try:
                if self.phase == _UPGRADE:
                    self._pass_over_upgrade()
                self._parser.feed_data(rest)
                break
            except HttpParserUpgrade as upgrade:
                rest = memoryview(rest)[upgrade.args[0] :]
            except HttpParserError as error:
                # Bytes behind the last request of a connection are nobody's business.
                if not self.is_ended:
                    if was_between and data.startswith(_TLS_HELLO):
                        self._answer = error_reply(_tls_spoken())
                        self._load.say_tls_spoken()
                    self._parser_failed(error)
                return
        if self.phase != BETWEEN:
            self._watch_progress(was_between=was_between)

    def refuse(self, error: HalfHitchError) -> None:
        """Give up the request being read and end; the answer takes its place in the order."""
        self._refuse(error_reply(error))

    @property
    def is_clean(self) -> bool:
        """What comes next is the first byte of a request."""
        return self.phase == BETWEEN and not (self.is_ended or self._is_begun)

    def end(self) -> None:
        """Read nothing more; what has been read of a request is dropped."""
        self.is_ended = True
        self.phase = BETWEEN
        self._load.buffered_bytes -= len(self._body)
        self._request.share.held_bytes -= len(self._body)
        self._body = b""
        self._headers = []

    # What httptools calls.

    def on_message_begin(self) -> None:
        self._is_begun = True

    def on_url(self, piece: bytes) -> None:
        if self.is_ended:
            raise _Stop
        self.phase = _HEAD
        self._target += piece

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        headers, self._headers = self._headers, []
        target, self._target = self._target, b""
        if self._is_replay:
            return
        limits = self._limits
        upper_bound_bytes = self._first_bytes + self._silent_bytes + self._read_bytes
        if len(headers) > limits.header_count_max or (
            upper_bound_bytes > limits.header_bytes_max
            and _head_bytes(target, headers) > limits.header_bytes_max
        ):
            self._stop(_headers_too_large(limits))
        self._first_bytes = self._silent_bytes = 0
        self._has_progressed = True
        self.phase = _BODY
        parser = self._parser
        keep_alive = parser.should_keep_alive()
        self._request = request = Request(
            parser.get_method(), target, headers, keep_alive=keep_alive
        )
        # A connection that stays open without being asked to is HTTP/1.1: no need to look.
        if not keep_alive or b"connection" in request.fields:
            self._check_version(request)
        self._check_framing(request)

    def on_body(self, piece: bytes) -> None:
        self._has_progressed = True
        load, share = self._load, self._request.share
        load.buffered_bytes += len(piece)
        share.held_bytes += len(piece)
        body = self._body
        if not body:
            self._body = body = piece
        elif type(body) is bytearray:
            body += piece
        else:
            # Not a list of pieces: the overhead of many small ones would be many times the limit.
            self._body = body = bytearray(body) + piece
        if len(body) > self._limits.body_bytes_max:
            self._stop(_body_too_large(self._limits))
        if load.buffered_bytes > self._limits.buffered_bytes_max:
            self._stop(_too_many_bodies("Too many request bodies are", self._limits))
        if share.held_bytes > self._limits.buffered_share_bytes_max:
            self._stop(_too_many_bodies("Too many request bodies of yours are", self._limits))

    def on_message_complete(self) -> None:
        if self.phase == _UPGRADE:
            return  # a body may still follow: see _pass_over_upgrade
        request, self._request = self._request, _NONE
        request.body = bytes(self._body)
        self._body = b""
        if self._headers:  # trailers: they come too late to mean anything
            self._headers = []
        self._has_progressed = True
        self._is_begun = False
        self.phase = BETWEEN
        if not request.keep_alive:
            self.is_ended = True
        self._sink.request_received(request)

    # The rest is for requests that are out of the ordinary.

    def _check_version(self, request: Request) -> None:
        version = self._parser.get_http_version()
        request.is_http_11 = version == "1.1"
        if version not in ("1.1", "1.0"):
            self._stop(_version_not_supported())

    def _check_framing(self, request: Request) -> None:
        fields = request.fields
        length = fields.get(b"content-length")
        if length is not None:
            length_bytes = int(length[-_LENGTH_DIGITS_MAX:])
            if length_bytes:
                self._announce(request)
            if length_bytes > self._limits.body_bytes_max:
                self._stop(_body_too_large(self._limits))
        elif b"transfer-encoding" in fields:
            self._announce(request)
            self._check_encoding(request)
        if b"upgrade" in fields or request.method == b"CONNECT":
            self._check_upgrade(request)
        if b"expect" in fields:
            self._check_expectation(request)

    def _announce(self, request: Request) -> None:
        """Nothing is taken of the body of somebody who is not let in."""
        self._answer = self._sink.body_announced(request)
        if self._answer is not None:
            raise _Stop

    def _check_encoding(self, request: Request) -> None:
        if request.fields[b"transfer-encoding"].lower() != b"chunked" or not request.is_http_11:
            self._stop(
                MalformedRequest(
                    "The only Transfer-Encoding taken is chunked, with HTTP/1.1; or send a "
                    "Content-Length."
                )
            )

    def _check_upgrade(self, request: Request) -> None:
        if request.method == b"CONNECT":
            self._stop(MalformedRequest("CONNECT is for proxies, and this is none."))
        if self._parser.should_upgrade():
            self.phase = _UPGRADE

    def _pass_over_upgrade(self) -> None:
        """Go on in HTTP/1.1, as a server may that is asked for another protocol.

        Not a rarity: Java's HttpClient asks for HTTP/2 in this way with its first request unless
        told otherwise. The parser has stopped before the body and cannot be told to go on, so a
        new one is brought to the same point by a head with the same framing.
        """
        request = self._request
        if b"transfer-encoding" in request.fields:
            framing = b"Transfer-Encoding: chunked"
        else:
            framing = b"Content-Length: " + request.fields.get(b"content-length", b"0")
        self._parser = HttpRequestParser(self)
        self._is_replay = True
        self.phase = _BODY
        try:
            # With no body to wait for, this completes the request.
            self._parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n\r\n" % framing)
        finally:
            self._is_replay = False

    def _check_expectation(self, request: Request) -> None:
        if request.fields[b"expect"].lower() != b"100-continue":
            self._stop(
                ExpectationFailed("The only Expect taken is 100-continue; leave the header out.")
            )
        if request.is_http_11:
            self._answer = self._sink.body_wanted(request)
            if self._answer is not None:
                raise _Stop

    def _watch_progress(self, *, was_between: bool) -> None:
        """Bound what is read without getting anywhere: a head, chunk sizes, trailers.

        The parser keeps an unfinished header to itself, so bytes are counted from outside, read
        by read. The first read is not held against the request, since it may have begun with
        others; it is bounded by what one read brings.
        """
        if was_between or self._has_progressed:
            self._first_bytes = self._read_bytes if self.phase == _HEAD else 0
            self._silent_bytes = 0
        else:
            self._silent_bytes += self._read_bytes
        limits = self._limits
        if (
            self._silent_bytes > limits.header_bytes_max
            or len(self._headers) > limits.header_count_max
        ):
            self.refuse(_headers_too_large(limits))

    def _stop(self, error: HalfHitchError) -> NoReturn:
        self._answer = error_reply(error)
        raise _Stop

    def _parser_failed(self, error: HttpParserError) -> None:
        answer, self._answer = self._answer, None
        if answer is None:
            cause = error.__context__
            if cause is None:
                answer = error_reply(_malformed(str(error)))
            elif isinstance(cause, Exception):
                answer = unread_reply(cause, self._load)
            else:
                raise cause
        self._refuse(answer)

    def _refuse(self, answer: bytes) -> None:
        request = self._request
        if request is _NONE:
            method = b"" if self.phase == BETWEEN else self._parser.get_method()
            request = Request(method, b"", [], keep_alive=False)
        request.keep_alive = False
        request.ready = answer
        self.end()
        self._request = _NONE
        self._sink.request_received(request)


def _head_bytes(target: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    """The size of a head, near enough: the few bytes between its parts are counted as four."""
    return len(target) + sum(len(name) + len(value) + 4 for name, value in headers)


def _headers_too_large(limits: Limits) -> HalfHitchError:
    return HeadersTooLarge(
        f"The request line and headers may have {limits.header_count_max} headers and "
        f"{limits.header_bytes_max} bytes; larger user headers fit into the JSON route's body."
    )


def _body_too_large(limits: Limits) -> HalfHitchError:
    return MessageTooLarge(
        f"The body is larger than the {limits.body_bytes_max} bytes this door takes; send fewer "
        "messages at once, or store the payload elsewhere and send a reference to it."
    )


def _too_many_bodies(what: str, limits: Limits) -> HalfHitchError:
    return Overloaded(
        f"{what} being held at once; nothing was stored. Repeat the request after the time in "
        "Retry-After.",
        retry_after_s=limits.retry_after_s,
    )


def _version_not_supported() -> HalfHitchError:
    return HttpVersionNotSupported("This door speaks HTTP/1.1 (and 1.0).")


def _tls_spoken() -> HalfHitchError:
    return MalformedRequest(
        "This port speaks plain HTTP, and what came is TLS: call it with http://, or set the "
        "door's tls_cert (http.tls_cert, admin.tls_cert)."
    )


def _malformed(reason: str) -> HalfHitchError:
    if reason == _HTTP_2_PREFACE:
        return _version_not_supported()
    return MalformedRequest(
        f"This is not a well-formed HTTP/1.1 request: {reason}. Check the address and the client."
    )
