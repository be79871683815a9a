"""When a call is tried again, when it is given up, and what may be said about it then.

Rules: a lost connection, 408, 429, 502, 503 and 504 are tried again with growing, jittered pauses
(at least what Retry-After asks) until the call's deadline; any other answer is final. Whatever was
sent and not clearly answered may have been carried out, and no later failure takes that back: only
a clear answer does, one that tells what became of the transaction. A refusal of the repetition (a
token that was changed meanwhile, a proxy's 404) speaks of itself alone. No I/O, no clock.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from halfhitch.client.calls import Call, Operation, error_of, says_its_state
from halfhitch.client.errors import DecisionUnknown, PrepareUnknown, SidecarUnavailable
from halfhitch.client.protocol import ProtocolError, Response
from halfhitch.errors import (
    CommittedInPart,
    ContraryDecision,
    HalfHitchError,
    Overloaded,
    RequestError,
    TransactionGone,
    TransactionParked,
    TransactionReused,
    VisibilityUnknown,
)

if TYPE_CHECKING:
    from halfhitch.client.tls import Trust

FIRST_PAUSE_S = 0.05
PAUSE_S_MAX = 1.0
#: One try may take this part of the call's deadline: a hung connection leaves time for another.
TRY_SHARE = 0.5
#: How long what does not speak HTTP may be a proxy whose sidecar is just starting.
STRANGER_S = 1.5

# 408: the sidecar gave up on a request that came too slowly; this process was held up in between.
_RETRIED = frozenset({408, 429, 502, 503, 504})

#: What only the coordinator says, of the transaction and not of the request: 409 and 410.
_CLEAR = (
    CommittedInPart,
    ContraryDecision,
    TransactionGone,
    TransactionParked,
    TransactionReused,
)

NO_ANSWER = "it did not answer in time"


class TransportFailure(Exception):
    """A try that ended without an answer."""

    def __init__(
        self,
        reason: str,
        *,
        sent: bool,
        stale: bool = False,
        busy: bool = False,
        stranger: bool = False,
        hopeless: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        #: Some of the request may have reached the sidecar.
        self.sent = sent
        #: A kept connection turned out to be closed: the sidecar's idle limit, or its restart.
        self.stale = stale
        #: No connection was free; the sidecar has nothing to do with it.
        self.busy = busy
        #: It took the connection, and closed it or said something before any HTTP answer.
        self.stranger = stranger
        #: Another try would end in the same way; the reason says what has to be done.
        self.hopeless = hopeless


class TryLimits(Protocol):
    """What a pool of connections has to keep to."""

    @property
    def ends_at_s(self) -> float:
        """When the whole call is over."""
        ...

    def try_ends_at_s(self, now_s: float) -> float:
        """When the try that begins now must be abandoned."""
        ...


class Attempts:
    """The tries of one call. Times are seconds of any monotonic clock."""

    def __init__(
        self,
        call: Call[Any],
        address: str,
        *,
        now_s: float,
        deadline_s: float,
        jitter: Callable[[], float],
        greeting: bytes | None = None,
    ) -> None:
        """`greeting` goes before the first messages of a transaction; None where it is known who
        listens.
        """
        self._call = call
        self._greeting = greeting if call.operation is Operation.PREPARE else None
        self._address = address
        self._deadline_s = deadline_s
        self._began_at_s = now_s
        self.ends_at_s = now_s + deadline_s
        self._jitter = jitter
        self._try_count = 1
        self._stale_seen = False
        self._perhaps_done = False
        self._durable: VisibilityUnknown | None = None

    def try_ends_at_s(self, now_s: float) -> float:
        """When the try that begins now must be abandoned."""
        return min(self.ends_at_s, now_s + self._deadline_s * TRY_SHARE)

    @property
    def request(self) -> bytes:
        """What the next try sends."""
        return self._call.request if self._greeting is None else self._greeting

    def failed(self, failure: TransportFailure, now_s: float) -> float:
        """The pause before the next try. Raises when there is no time for one."""
        is_greeting = self._greeting is not None
        self._perhaps_done |= failure.sent and not is_greeting
        if failure.stale and not self._stale_seen and now_s < self.ends_at_s:
            self._stale_seen = True  # says nothing about the sidecar's health: no pause
            return 0.0
        error: HalfHitchError
        if failure.busy:
            error = Overloaded(f"{failure.reason}; make the producer with a larger connections_max")
        elif failure.hopeless:
            error = SidecarUnavailable(self._address, failure.reason, is_explained=True)
            self._give_up(error, failure.reason, now_s)
        else:
            is_stranger = is_greeting and failure.stranger
            error = SidecarUnavailable(self._address, failure.reason, is_stranger=is_stranger)
            if is_stranger and now_s - self._began_at_s >= STRANGER_S:
                raise error
        return self._pause_s(error, failure.reason, now_s, at_least_s=0)

    def answered(self, response: Response, now_s: float) -> float | None:
        """None: this is the answer. Else the pause before the next try; raises what is final."""
        if self._greeting is not None:
            self._greeting = None  # HTTP is spoken there; how well, the messages will find out
            return 0.0
        if 200 <= response.status < 300:
            return None
        error = error_of(response, self._address, self._call.operation)
        if isinstance(error, VisibilityUnknown):
            self._durable = error
        elif not says_its_state(error) and not isinstance(error, RequestError):
            self._perhaps_done = True
        if response.status not in _RETRIED:
            self._give_up(error, error.message, now_s)
        at_least_s = getattr(error, "retry_after_s", 0)
        return self._pause_s(error, error.message, now_s, at_least_s=at_least_s)

    def _pause_s(
        self, error: HalfHitchError, reason: str, now_s: float, *, at_least_s: float
    ) -> float:
        doubled_s: float = FIRST_PAUSE_S * 2.0 ** min(self._try_count - 1, 16)
        pause_s = min(doubled_s, PAUSE_S_MAX) * (0.5 + 0.5 * self._jitter())
        pause_s = max(pause_s, at_least_s)
        if now_s + pause_s >= self.ends_at_s:
            self._give_up(error, reason, now_s)
        self._try_count += 1
        return pause_s

    def _give_up(self, error: HalfHitchError, reason: str, now_s: float) -> NoReturn:
        if self._durable is not None:
            raise self._durable
        call = self._call
        if isinstance(error, _CLEAR) or not self._perhaps_done:
            raise error
        tries = "1 try" if self._try_count == 1 else f"{self._try_count} tries"
        told = f"{tries} in {now_s - self._began_at_s:.1f} s, the last: {reason}"
        if isinstance(error, RequestError):
            told += "; that refuses the repetition, and says nothing of the tries before it"
        if call.operation in (Operation.PREPARE, Operation.ADD):
            raise PrepareUnknown(
                told, transaction_id=call.transaction_id, handle=call.handle
            ) from error
        if call.operation in (Operation.COMMIT, Operation.ROLLBACK):
            raise DecisionUnknown(
                told,
                requested=call.operation.value,
                handle=call.handle or "",
                transaction_id=call.transaction_id,
            ) from error
        raise error


def without_inner_lines(error: HalfHitchError) -> HalfHitchError:
    """To be raised: it speaks of what lies outside, and lines of this package say nothing of it."""
    return error.with_traceback(None)


def no_connection(error: OSError, trust: "Trust | None") -> TransportFailure:
    """None came about."""
    trouble = None if trust is None else trust.trouble_with(error)
    return TransportFailure(trouble or words_of(error), sent=False, hopeless=trouble is not None)


def words_of(error: Exception) -> str:
    """What a failed connection says to a person."""
    if isinstance(error, ProtocolError):
        return f"no proper HTTP answer: {error}"
    if isinstance(error, TimeoutError) and not error.strerror:
        return "no connection in time"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
