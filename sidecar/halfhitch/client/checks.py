"""The stream of checks: what comes on it, when it counts as dead, when it is opened again. No I/O.

Invariants:
- a check is either whole and of this producer's group, or it is dropped with a line in the log;
- only a `LocalTransactionState` that the application returned becomes a decision; everything else
  (an exception, another value) is "cannot say yet";
- memory is bounded: a line that does not end is the end of the connection.

Used by both shells (`sync_checks`, `aio_checks`), which own the sockets, threads and tasks.
"""

import logging
import socket
from collections.abc import Callable, Iterator
from json import loads
from os import getpid
from typing import NamedTuple

from halfhitch.client import why
from halfhitch.client.calls import Operation, error_of
from halfhitch.client.check_lines import read_check
from halfhitch.client.protocol import (
    CHUNK_LINE_BYTES_MAX,
    HEAD_BYTES_MAX,
    ProtocolError,
    Response,
    ResponseParser,
    read_chunk_size,
    read_fields,
    read_status_line,
)
from halfhitch.client.unawaited import not_a_state
from halfhitch.client.values import Check, LocalTransactionState
from halfhitch.errors import (
    BackendError,
    ContraryDecision,
    HalfHitchError,
    TransactionGone,
    TransactionNotFound,
    TransactionParked,
)

#: Both sides say so often that they are there; the request tells the sidecar.
HEARTBEAT_S = 3
#: A sidecar that was silent for so long is gone, whatever the socket says.
SILENCE_S = 10.0
#: And this is how long it is listened for once more then.
LAST_LOOK_S = 0.1
CONNECT_S = 5.0
#: A check is as large as its transaction, base64 included.
LINE_BYTES_MAX = 16 * 1024 * 1024
#: Answers on their way to the sidecar, beside the checks that are being asked: storing a decision
#: takes it longer than a look into the database takes the application.
SENDING_MAX = 24
#: How long `close()` waits for checks that are running.
CLOSE_S = 5.0
#: Between two connections: doubled from the first to the longest.
FIRST_PAUSE_S = 0.05
PAUSE_S_MAX = 5.0
#: After an answer that says that the request is wrong (a token, a group, an old sidecar).
REFUSED_PAUSE_S = 20.0
RETRY_AFTER_S_MAX = 60
#: Losing a stream is part of every restart; so many failures in a row are worth a warning.
WARNED_FAILURE_COUNT = 3
#: Checks that all wait for the application's answer for so long are worth one too.
STUCK_S = 30.0

HEARTBEAT = b"\r\n"

log = logging.getLogger("halfhitch.client")


class StreamLost(Exception):
    """The stream is over; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class StreamRefused(Exception):
    """The sidecar answered, but not with a stream."""

    def __init__(self, response: Response) -> None:
        super().__init__(f"status {response.status}")
        self.response = response


class CheckStream:
    """One connection's stream, from the status line to its end. Times are of any steady clock."""

    def __init__(
        self, group: str, now_s: float, on_good: Callable[[], None] = lambda: None
    ) -> None:
        self._group = group
        self._on_good = on_good
        self._raw = bytearray()
        self._read_part: Callable[[], bool] = self._read_head
        self._chunk_left = 0
        self._line = bytearray()
        self._searched_length = 0
        self._refusal: ResponseParser | None = None
        self._heard_at_s = now_s
        self._beat_at_s = now_s + HEARTBEAT_S
        self._is_doubted = False
        self._broken_seen = False
        #: A whole line has come: this is a stream of checks indeed.
        self.is_good = False
        #: The sidecar has ended it properly.
        self.is_over = False

    def feed(self, data: bytes, now_s: float) -> Iterator[Check]:
        """The checks that `data` completes, and then: ProtocolError, StreamRefused, StreamLost."""
        self.listened_again(now_s)
        self._raw += data
        while self._read_part():
            yield from self._checks()

    def end(self) -> None:
        """The sidecar has closed the connection. Raises StreamRefused, ProtocolError, StreamLost.

        What stands on an unfinished line is lost with it: the check will be sent again.
        """
        if self._refusal is not None:
            raise StreamRefused(self._refusal.end())
        if not self.is_over:
            raise StreamLost("the connection was closed")

    def wait_s(self, now_s: float) -> float:
        """For so long nothing needs to be done unless something comes."""
        if self._is_doubted:
            return LAST_LOOK_S
        return min(self._beat_at_s, self._heard_at_s + SILENCE_S) - now_s

    def beat_is_due(self, now_s: float) -> bool:
        """True once for each heartbeat that must be sent."""
        if now_s < self._beat_at_s:
            return False
        self._beat_at_s = now_s + HEARTBEAT_S
        return True

    def listened_again(self, now_s: float) -> None:
        """Nothing was read for a while because there was no room; that is no silence."""
        self._heard_at_s = now_s
        self._is_doubted = False

    def look_at_clock(self, now_s: float) -> None:
        """Nothing has come. Raises StreamLost when that lasted too long.

        But not at the first look: this process may have been held up (stopped, or by a call that
        blocks its loop) while what came was waiting to be read.
        """
        if now_s - self._heard_at_s < SILENCE_S:
            return
        if self._is_doubted:
            raise StreamLost(f"nothing came for {SILENCE_S:g} s, not even a heartbeat")
        self._is_doubted = True

    def _read_head(self) -> bool:
        raw = self._raw
        head_length = raw.find(b"\r\n\r\n")
        if head_length < 0:
            if len(raw) > HEAD_BYTES_MAX:
                raise ProtocolError(f"a head of more than {HEAD_BYTES_MAX} bytes")
            if not raw.startswith(b"HTTP/1."[: len(raw)]):
                raise ProtocolError("it does not begin as HTTP/1.1 does")
            return False
        lines = raw[:head_length].decode("latin-1").split("\r\n")
        status, _ = read_status_line(lines[0])
        if status != 200:
            self._refusal = ResponseParser()
            self._read_part = self._read_refusal
            return True
        headers = read_fields(lines)
        if headers.get("transfer-encoding", "").lower() != "chunked" or "content-length" in headers:
            raise ProtocolError("an answer to GET /v1/checks that is no stream of chunks")
        del raw[: head_length + 4]
        self._read_part = self._read_chunk_size
        return True

    def _read_refusal(self) -> bool:
        """Also of interim answers, of which this route has none."""
        assert self._refusal is not None
        response = self._refusal.feed(bytes(self._raw))
        self._raw.clear()
        if response is not None:
            raise StreamRefused(response)
        return False

    def _read_chunk_size(self) -> bool:
        line = self._read_chunk_line()
        if line is None:
            return False
        self._chunk_left = read_chunk_size(line)
        self._read_part = self._read_chunk if self._chunk_left else self._read_trailer
        return True

    def _read_chunk(self) -> bool:
        piece = self._raw[: self._chunk_left]  # not awaited whole: a chunk may be of any size
        del self._raw[: len(piece)]
        self._line += piece
        self._chunk_left -= len(piece)
        if not self._chunk_left:
            self._read_part = self._read_chunk_end
        return bool(piece)

    def _read_chunk_end(self) -> bool:
        if len(self._raw) < 2:
            return False
        if self._raw[:2] != b"\r\n":
            raise ProtocolError("a chunk is longer than it says")
        del self._raw[:2]
        self._read_part = self._read_chunk_size
        return True

    def _read_trailer(self) -> bool:
        line = self._read_chunk_line()
        self.is_over = line == b""
        return bool(line)

    def _read_chunk_line(self) -> bytes | None:
        length = self._raw.find(b"\r\n", 0, CHUNK_LINE_BYTES_MAX + 2)
        if length < 0:
            if len(self._raw) > CHUNK_LINE_BYTES_MAX:
                raise ProtocolError("an endless line in a chunked body")
            return None
        line = bytes(self._raw[:length])
        del self._raw[: length + 2]
        return line

    def _checks(self) -> Iterator[Check]:
        while True:
            length = self._line.find(b"\n", self._searched_length)
            if max(length, len(self._line) if length < 0 else 0) > LINE_BYTES_MAX:
                log.warning(
                    "a line of more than %d bytes on the stream of checks: the connection is given"
                    " up",
                    LINE_BYTES_MAX,
                    extra={"action": "check_line_too_long"},
                )
                raise StreamLost(f"a line of more than {LINE_BYTES_MAX} bytes")
            if length < 0:
                self._searched_length = len(self._line)
                return
            line = bytes(self._line[:length])
            del self._line[: length + 1]
            self._searched_length = 0
            check = self._understood(line)
            if check is not None:
                yield check

    def _understood(self, line: bytes) -> Check | None:
        try:
            found = loads(line)
            kind = found["type"]
            if kind == "check":
                check = read_check(found)
                if check.producer_group != self._group:
                    raise ValueError(f"it is for the group {check.producer_group!r}")
                self._is_one()
                return check
            if not isinstance(kind, str):
                raise TypeError("its type is no text")
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            # Once loudly: a stream of nothing but garbage must not fill the disk.
            log.log(
                logging.DEBUG if self._broken_seen else logging.WARNING,
                "a line on the stream of checks of group %r is ignored (%r): %r",
                self._group,
                error,
                line[:200],
                extra={"action": "check_ignored"},
            )
            self._broken_seen = True
            return None
        self._is_one()  # a heartbeat, or something of a later version
        return None

    def _is_one(self) -> None:
        if not self.is_good:
            self.is_good = True
            self._on_good()


class Lifeline:
    """When the next stream is opened, and what the log says of the one before."""

    def __init__(self, address: str, group: str, jitter: Callable[[], float]) -> None:
        self._address = address
        self._group = group
        self._jitter = jitter
        self._failure_count = 0
        self._warned_of = ""

    def pause_s(
        self, reason: str, stream: CheckStream | None, lasted_s: float, refusal: Response | None
    ) -> float:
        """After a stream (None: there was no connection) that ended for this reason."""
        if stream is not None and stream.is_good and lasted_s >= HEARTBEAT_S:
            self._failure_count = 0
        self._failure_count += 1
        doubled_s: float = FIRST_PAUSE_S * 2.0 ** min(self._failure_count - 1, 16)
        pause_s = min(doubled_s, PAUSE_S_MAX)
        at_least_s = 0.0
        is_wrong = False
        if refusal is not None:
            error = error_of(refusal, self._address, Operation.CHECKS)
            reason = error.message
            if isinstance(error, BackendError):
                at_least_s = min(error.retry_after_s, RETRY_AFTER_S_MAX)
            else:
                is_wrong = True
                pause_s = REFUSED_PAUSE_S
        self._say(reason, is_wrong=is_wrong)
        return at_least_s + pause_s * (0.5 + 0.5 * self._jitter())

    def _say(self, reason: str, *, is_wrong: bool) -> None:
        loudly = is_wrong or self._failure_count >= WARNED_FAILURE_COUNT
        if loudly and reason == self._warned_of:
            loudly = False
        if loudly:
            self._warned_of = reason
        log.log(
            logging.WARNING if loudly else logging.DEBUG,
            "cannot receive checks for group %r from %s (%s): until that works, this process is not"
            " asked what became of its transactions. It keeps trying.",
            self._group,
            self._address,
            reason,
            extra={"action": "check_stream_failed"},
        )

    def recovered(self) -> None:
        """There is a stream."""
        if self._warned_of:
            log.info(
                "there is a stream of checks of group %r from %s again",
                self._group,
                self._address,
                extra={"action": "check_stream_recovered"},
            )
            self._warned_of = ""


def producer_name() -> str:
    """Who is asked, for people: host and process."""
    return f"{socket.gethostname()}-{getpid()}"


class Answered(NamedTuple):
    """What is sent: a state, and for an UNKNOWN that the application did not say, why."""

    state: LocalTransactionState
    reason: str | None = None


def forget_earlier() -> None:
    """Whatever an earlier check, or a block of the application's, has noted here."""
    why.take()
    why.take_grounds()


def answer_of(check: Check, told: object) -> Answered:
    """What the application said; anything that is not a state is UNKNOWN."""
    error, grounds = why.take(), why.take_grounds()
    if not isinstance(told, LocalTransactionState):
        return unknown_because(check, not_a_state(told, "a check"))
    reason = None
    if told is LocalTransactionState.UNKNOWN:
        grounds = ""
        if error is not None:
            from halfhitch.client.reasons import reason_of

            reason = reason_of(error, check)
    log.info(
        "asked about %s (check %d of %d): %s%s",
        check.transaction_id,
        check.number,
        check.number_max,
        told.value,
        f", {grounds or reason}" if grounds or reason else "",
        extra={
            "action": "check_answered",
            "producer_group": check.producer_group,
            "transaction_id": check.transaction_id,
        },
    )
    return Answered(told, reason)


def unknown_because(check: Check, error: BaseException) -> Answered:
    """The application raised: never a decision."""
    from halfhitch.client.reasons import reason_of

    log.error(
        "check %d of %d of %s failed: answered as unknown, it will be asked again",
        check.number,
        check.number_max,
        check.transaction_id,
        exc_info=error,
        extra={"action": "check_failed"},
    )
    return Answered(LocalTransactionState.UNKNOWN, reason_of(error, check))


def note_unsent(check: Check, state: LocalTransactionState, error: Exception) -> None:
    """The answer was refused or did not arrive; either is repaired by the coordinator."""
    settled = (ContraryDecision, TransactionGone, TransactionNotFound, TransactionParked)
    if isinstance(error, settled):
        log.debug("check of %s: settled otherwise (%s)", check.transaction_id, error)
        return
    known = isinstance(error, HalfHitchError)
    log.log(
        logging.WARNING if known else logging.ERROR,
        "the answer %s to the check of %s was not taken (%s); the coordinator will ask again",
        state.value,
        check.transaction_id,
        error,
        exc_info=None if known else error,
        extra={"action": "check_answer_failed"},
    )


def note_repeated(check: Check) -> None:
    """It came again while the application is still at it."""
    log.debug("check of %s came again while it is running", check.transaction_id)


def note_abandoned(check: Check) -> None:
    """The application answered after `close()`."""
    log.debug("check of %s: the producer is closed, no answer is sent", check.transaction_id)


def at_once(workers_max: int) -> int:
    """How many checks to ask for: enough to keep the workers busy while answers are on their way.

    More would lie in buffers here while the time for their answers runs out.
    """
    return 4 * workers_max + 32


def note_stuck(group: str, workers_max: int) -> None:
    """All of them have been busy for long."""
    log.warning(
        "all %d checks of group %r that may run at once have been running for %g s: further ones"
        " wait. Is the database slow, or a check without a time limit of its own?",
        workers_max,
        group,
        STUCK_S,
        extra={"action": "checks_stuck"},
    )


def note_crash(error: Exception) -> None:
    """A bug of ours; the stream goes on."""
    log.error("the stream of checks failed", exc_info=error, extra={"action": "check_stream_bug"})
