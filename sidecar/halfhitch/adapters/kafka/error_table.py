"""What an error of a Kafka transaction means, and what is to be done: a table.

A code says what kind of thing went wrong; librdkafka's three flags (fatal, requires abort,
retriable) say what this producer can still do. `judge` puts them together: the flag `fatal` is
always believed, then the table, then the other flags, and what nobody knows counts as fatal.

Two rules have no exception:
- after a commit was asked for, only the commit is ever repeated. To abort then would be a guess;
- a call is repeated only while the table says RETRIABLE and its time has not run out. librdkafka
  flags `_CONFLICT` as retriable, and repeating it would go round for ever.

Nothing here does anything; the writer acts.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from confluent_kafka import KafkaError


class ErrorClass(Enum):
    """How bad it is."""

    FATAL = "fatal"  # this producer can do nothing more
    ABORTABLE = "abortable"  # this Kafka transaction must be aborted, as long as no end was asked
    RETRIABLE = "retriable"  # the same call may be repeated
    UNKNOWN = "unknown"  # nobody can say how the Kafka transaction ended


class Action(Enum):
    """What is to be done."""

    RECREATE = "drop the producer; while the partition is ours, make a new one after a pause"
    ABORT = "abort, fence, try the step again after a pause"
    ABORT_AND_REJOIN = "abort; the group decides who owns the partition"
    ABORT_AND_PARK = "abort, find the message at fault, park it"
    ABORT_AND_WAIT = "abort, let the target rest, go on with the others"
    RESUME = "the same call again, bounded; afterwards the producer is suspect"
    TAKE_OVER = "drop the producer and read the logs: they know"


@dataclass(frozen=True, slots=True)
class Meaning:
    """One row."""

    kind: ErrorClass
    action: Action


_FATAL: Final = Meaning(ErrorClass.FATAL, Action.RECREATE)
_ABORT: Final = Meaning(ErrorClass.ABORTABLE, Action.ABORT)
_REJOIN: Final = Meaning(ErrorClass.ABORTABLE, Action.ABORT_AND_REJOIN)
_PARK: Final = Meaning(ErrorClass.ABORTABLE, Action.ABORT_AND_PARK)
_WAIT: Final = Meaning(ErrorClass.ABORTABLE, Action.ABORT_AND_WAIT)
_RESUME: Final = Meaning(ErrorClass.RETRIABLE, Action.RESUME)
_TAKE_OVER: Final = Meaning(ErrorClass.UNKNOWN, Action.TAKE_OVER)

_E: Final[Any] = KafkaError

#: What a call of the transactional producer gave (begin, produce, send offsets, commit, abort).
MEANINGS: Final[dict[int, Meaning]] = {
    # Another producer has our transactional id, or the coordinator ended our transaction because
    # it took too long: librdkafka cannot tell these apart, so this is no proof of lost ownership.
    _E._FENCED: _FATAL,
    _E.PRODUCER_FENCED: _FATAL,
    _E.INVALID_PRODUCER_EPOCH: _FATAL,
    _E.INVALID_TXN_STATE: _FATAL,
    _E.TRANSACTION_COORDINATOR_FENCED: _FATAL,
    _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _FATAL,
    _E.CLUSTER_AUTHORIZATION_FAILED: _FATAL,
    _E.INVALID_TRANSACTION_TIMEOUT: _FATAL,
    _E.SASL_AUTHENTICATION_FAILED: _FATAL,
    _E.UNSUPPORTED_VERSION: _FATAL,
    _E._AUTHENTICATION: _FATAL,
    _E._FATAL: _FATAL,
    _E._GAPLESS_GUARANTEE: _FATAL,
    _E._STATE: _FATAL,
    _E._DESTROY: _FATAL,
    # Retriable by its flag, but it means that another call is still going on inside the producer:
    # an abort behind a commit of which nobody knows the end.
    _E._CONFLICT: _TAKE_OVER,
    _E._PREV_IN_PROGRESS: _TAKE_OVER,
    # "The commit succeeded on the broker, but the transaction had already failed here."
    _E._INCONSISTENT: _TAKE_OVER,
    # The group does not know us as we were; assignments will follow.
    _E.ILLEGAL_GENERATION: _REJOIN,
    _E.UNKNOWN_MEMBER_ID: _REJOIN,
    _E.FENCED_INSTANCE_ID: _REJOIN,
    _E.STALE_MEMBER_EPOCH: _REJOIN,
    _E.FENCED_MEMBER_EPOCH: _REJOIN,
    _E._ASSIGNMENT_LOST: _REJOIN,
    # The producer id is not known any more: a new epoch or id comes with the fence.
    _E.UNKNOWN_PRODUCER_ID: _ABORT,
    _E.INVALID_PRODUCER_ID_MAPPING: _ABORT,
    _E.OUT_OF_ORDER_SEQUENCE_NUMBER: _ABORT,
    _E.DUPLICATE_SEQUENCE_NUMBER: _ABORT,
    _E.TRANSACTION_ABORTABLE: _ABORT,
    _E.GROUP_AUTHORIZATION_FAILED: _ABORT,
    _E._QUEUE_FULL: _ABORT,
    _E._PURGE_QUEUE: _ABORT,
    _E._PURGE_INFLIGHT: _ABORT,
    # A record that its target will never take.
    _E.UNKNOWN_TOPIC_OR_PART: _PARK,
    _E._UNKNOWN_TOPIC: _PARK,
    _E._UNKNOWN_PARTITION: _PARK,
    _E.TOPIC_EXCEPTION: _PARK,
    _E.TOPIC_AUTHORIZATION_FAILED: _PARK,
    _E.MSG_SIZE_TOO_LARGE: _PARK,
    _E.RECORD_LIST_TOO_LARGE: _PARK,
    _E.INVALID_RECORD: _PARK,
    _E.INVALID_MSG: _PARK,
    _E.INVALID_TIMESTAMP: _PARK,
    _E.POLICY_VIOLATION: _PARK,
    _E._INVALID_ARG: _PARK,
    # A record that was not stored in time.
    _E._MSG_TIMED_OUT: _WAIT,
    _E._ISR_INSUFF: _WAIT,
    _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _WAIT,
    _E.KAFKA_STORAGE_ERROR: _WAIT,
    # What passes by itself.
    _E._TIMED_OUT: _RESUME,
    _E._TIMED_OUT_QUEUE: _RESUME,
    _E._TRANSPORT: _RESUME,
    _E._ALL_BROKERS_DOWN: _RESUME,
    _E._RESOLVE: _RESUME,
    _E._WAIT_COORD: _RESUME,
    _E._RETRY: _RESUME,
    _E._IN_PROGRESS: _RESUME,
    _E.REQUEST_TIMED_OUT: _RESUME,
    _E.NETWORK_EXCEPTION: _RESUME,
    _E.COORDINATOR_NOT_AVAILABLE: _RESUME,
    _E.COORDINATOR_LOAD_IN_PROGRESS: _RESUME,
    _E.NOT_COORDINATOR: _RESUME,
    _E.CONCURRENT_TRANSACTIONS: _RESUME,
    _E.UNSTABLE_OFFSET_COMMIT: _RESUME,
    _E.REBALANCE_IN_PROGRESS: _RESUME,
    _E.THROTTLING_QUOTA_EXCEEDED: _RESUME,
    _E.BROKER_NOT_AVAILABLE: _RESUME,
    # How librdkafka also hears that the broker could not verify a partition of the transaction.
    _E.NOT_ENOUGH_REPLICAS: _RESUME,
    _E.LEADER_NOT_AVAILABLE: _RESUME,
    _E.NOT_LEADER_FOR_PARTITION: _RESUME,
    _E.REPLICA_NOT_AVAILABLE: _RESUME,
}

#: Why a single record may be stored later, though it was not now.
AWAY: Final[frozenset[int]] = frozenset(
    {code for code, meaning in MEANINGS.items() if meaning is _WAIT}
    | {
        _E.NOT_ENOUGH_REPLICAS,
        _E.LEADER_NOT_AVAILABLE,
        _E.NOT_LEADER_FOR_PARTITION,
        _E.REPLICA_NOT_AVAILABLE,
        _E.BROKER_NOT_AVAILABLE,
        _E.REQUEST_TIMED_OUT,
        _E.NETWORK_EXCEPTION,
        _E.THROTTLING_QUOTA_EXCEEDED,
        _E._TIMED_OUT,
        _E._TIMED_OUT_QUEUE,
        _E._TRANSPORT,
        _E._ALL_BROKERS_DOWN,
    }
)


#: What no smaller step would help against: the trouble is the group's, the producer's, or ours.
_OURS: Final[frozenset[int]] = frozenset(
    {
        code
        for code, meaning in MEANINGS.items()
        if meaning in (_REJOIN, _FATAL) and code not in (_E._STATE, _E._FATAL)
    }
    | {_E.GROUP_AUTHORIZATION_FAILED, _E.UNKNOWN_PRODUCER_ID, _E.INVALID_PRODUCER_ID_MAPPING}
)


def is_ours(error: KafkaError) -> bool:
    """Whether a call failed for the owner's own sake, whatever its Kafka transaction contained."""
    return error.fatal() or error.code() in _OURS


def judge(error: KafkaError) -> Meaning:
    """What the error of a call means for its Kafka transaction, before its end was asked for."""
    known = MEANINGS.get(error.code())
    if error.fatal():
        return known if known is _TAKE_OVER else _FATAL
    if error.txn_requires_abort():
        # The table may say more about it, but not that it may go on.
        return known if known is not None and known.kind is ErrorClass.ABORTABLE else _ABORT
    if known is not None:
        return known
    return _RESUME if error.retriable() else _FATAL


def judge_commit(error: KafkaError) -> ErrorClass:
    """The same for an error of a commit.

    ABORTABLE only where librdkafka says so itself: then EndTxn was refused or never sent.
    RETRIABLE: ask for the same commit again. All else is UNKNOWN, FATAL included: a fenced
    producer's commit may have been carried out before it was fenced.
    """
    if error.fatal():
        return ErrorClass.UNKNOWN
    if error.txn_requires_abort():
        return ErrorClass.ABORTABLE
    if judge(error).kind is ErrorClass.RETRIABLE and error.retriable():
        return ErrorClass.RETRIABLE
    return ErrorClass.UNKNOWN
