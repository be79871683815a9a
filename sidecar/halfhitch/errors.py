"""Every error Half Hitch raises on purpose, and whose fault it is.

    HalfHitchError
    ├── RequestError                  the caller asked for what cannot be: no retry will help
    │   ├── InvalidRequest            malformed or missing fields
    │   │   ├── InvalidJson, InvalidBase64, ReservedHeader
    │   │   ├── UnknownTopic, ForbiddenTopic, InvalidPartition
    │   │   ├── InvalidHandle         broken, forged, or signed with a key that is not known here
    │   │   └── WrongGroup
    │   ├── Unauthorized              whoever asks does not say who he is
    │   ├── Forbidden                 who asks is known, and has no right to this
    │   ├── TransactionNotFound
    │   ├── TransactionGone           it ended so long ago that how is no longer known
    │   ├── ContraryDecision          it ended the other way first
    │   ├── CommittedInPart           it was committed before some of its messages were added
    │   ├── TransactionReused         its id stands for other messages already
    │   ├── TransactionParked         its messages lie on the parked topic: an operator must look
    │   ├── MessageTooLarge, UnsupportedMediaType
    │   │   └── TransactionTooLarge
    ├── BackendError                  trouble behind the door; the same request may succeed later
    │   ├── Overloaded, ShuttingDown
    │   │   ├── TooManyRequests       of this identity in this second
    │   │   ├── TooManyUndecided      of this group, or of all, in the half partition
    │   │   ├── TooManyWaiting        decided, for a target topic that is away
    │   │   └── OwnerLags             what is committed now would be visible much later
    │   ├── KafkaUnavailable          surely not stored
    │   ├── OutcomeUnknown            perhaps stored: never to be read as "no"
    │   │   └── VisibilityUnknown     decided and durable; whether it is visible yet is not known
    │   └── RedisUnavailable          only where Redis is all there is to ask
    ├── ConfigurationError            refuse to start
    │   └── TopologyError             the internal topics break a promise
    └── InvariantViolation            a bug of ours: please report it

Each class carries a stable `code` (part of the public contract) and says whether a retry can help.
How an error looks on a wire is decided beside each door, nowhere else.
"""

from typing import Any, ClassVar


class HalfHitchError(Exception):
    """Base of everything raised on purpose. `str(error)` is a sentence a person can act on."""

    code: ClassVar[str] = "internal_error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        """Survive the way between processes; constructors with keywords would not."""
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(
    kind: type[HalfHitchError], args: tuple[Any, ...], state: dict[str, Any]
) -> HalfHitchError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class RequestError(HalfHitchError):
    """The caller's fault; the same request will fail again."""

    code = "invalid_request"


class InvalidRequest(RequestError):
    """A field is missing, malformed or out of range."""

    code = "invalid_request"


class InvalidJson(InvalidRequest):
    """The body is not the JSON the route takes."""

    code = "invalid_json"


class InvalidBase64(InvalidRequest):
    """A `..._base64` field does not decode."""

    code = "invalid_base64"


class ReservedHeader(InvalidRequest):
    """A user header has a name that Half Hitch writes itself."""

    code = "reserved_header"


class UnknownTopic(InvalidRequest):
    """The target topic does not exist."""

    code = "unknown_topic"


class ForbiddenTopic(InvalidRequest):
    """The target topic is internal, malformed or outside the allow-list."""

    code = "forbidden_topic"


class InvalidPartition(InvalidRequest):
    """The message is fixed to a partition its topic does not have."""

    code = "invalid_partition"


class InvalidHandle(InvalidRequest):
    """The handle is broken, or was not signed with a key this instance knows."""

    code = "invalid_handle"


class WrongGroup(InvalidRequest):
    """The producer group named in the request is not the one that prepared."""

    code = "wrong_group"


class Unauthorized(RequestError):
    """Who asks is not known: no token, access key or certificate that is known here."""

    code = "unauthorized"

    def __init__(self, message: str, *, schemes: str = "Half-Token") -> None:
        super().__init__(message)
        self.schemes = schemes


class Forbidden(RequestError):
    """The identity that asks lacks a right; the sentence names it, and the group or topic."""

    code = "forbidden"


class TransactionNotFound(RequestError):
    """No such transaction."""

    code = "transaction_not_found"


class TransactionGone(RequestError):
    """The transaction ended so long ago that how it ended is no longer known."""

    code = "transaction_gone"


class ContraryDecision(RequestError):
    """The transaction was already decided the other way; the first decision stands."""

    code = "contrary_decision"

    def __init__(self, message: str, *, decided: str, requested: str) -> None:
        super().__init__(message)
        self.decided = decided
        self.requested = requested


class CommittedInPart(RequestError):
    """It was committed, by somebody else, before some of its messages were added to it."""

    code = "committed_in_part"


class TransactionReused(RequestError):
    """The id stands for other messages already. Those stand; these are not stored, or dropped."""

    code = "transaction_id_reused"


class TransactionParked(RequestError):
    """Its messages lie on the parked topic: `halfhitch parked show` says why."""

    code = "transaction_parked"


class MessageTooLarge(RequestError):
    """A message or a body exceeds a limit."""

    code = "message_too_large"


class TransactionTooLarge(MessageTooLarge):
    """All messages of a transaction together exceed a limit."""

    code = "transaction_too_large"


class UnsupportedMediaType(RequestError):
    """The body's content type or encoding is not one the route takes."""

    code = "unsupported_media_type"


class BackendError(HalfHitchError):
    """Not the caller's fault; retry after `retry_after_s` seconds."""

    code = "unavailable"
    retryable = True

    def __init__(self, message: str, *, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Overloaded(BackendError):
    """Too much is in flight; new prepares are refused first, ends never."""

    code = "overloaded"


class TooManyRequests(Overloaded):
    """The identity has asked as often in this second as it may; ends and answers to checks are
    taken all the same."""

    code = "too_many_requests"
    #: For so long a door keeps the answer back, or reads nothing more of who asks: a refusal costs
    #: little, and so whoever does not wait would ask the faster for it.
    hold_back_s = 0.0


class TooManyUndecided(Overloaded):
    """The half partition has as many undecided transactions of the group, or of all groups, as it
    may have; ends, and answers to checks, are what makes room."""

    code = "too_many_undecided"


class TooManyWaiting(Overloaded):
    """As many decided transactions as may wait for a target topic that is away; nothing new for it
    is taken, or nothing new at all."""

    code = "too_many_waiting"


class OwnerLags(Overloaded):
    """The owner of the half partition is seconds behind its logs."""

    code = "owner_lags"


class ShuttingDown(BackendError):
    """This instance is draining."""

    code = "shutting_down"


class KafkaUnavailable(BackendError):
    """Kafka did not take the record; it is surely not stored."""

    code = "kafka_unavailable"


class OutcomeUnknown(BackendError):
    """Kafka did not answer in time: the record may or may not be stored.

    Repeating the request with the same transaction id is safe either way.
    """

    code = "outcome_unknown"


class VisibilityUnknown(OutcomeUnknown):
    """The decision is durable; the forward was not seen within the waiting time."""

    code = "visibility_unknown"


class RedisUnavailable(BackendError):
    """Redis did not answer. No transaction depends on it; a question of an operator may."""

    code = "redis_unavailable"


class ConfigurationError(HalfHitchError):
    """A setting is wrong; the message names the setting and a good value."""

    code = "configuration"


class TopologyError(ConfigurationError):
    """The internal topics are missing or set up so that a promise would break."""

    code = "topology"


class BelowLogError(TopologyError):
    """A stored watermark lies below its log: records were deleted up to a newer one, or from
    outside. No position lies beyond its log's end.
    """


class InvariantViolation(HalfHitchError):
    """Something that cannot happen did. A bug: stop rather than act on wrong state."""

    code = "invariant_violation"


def invariant(condition: object, sentence: str) -> None:
    """Raise InvariantViolation unless `condition` holds; unlike `assert` also under `-O`."""
    if not condition:
        raise InvariantViolation(sentence)
