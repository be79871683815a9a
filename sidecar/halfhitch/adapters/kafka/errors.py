"""Kafka's errors as ours: was the record surely not stored, or can nobody say?"""

from typing import Any

from confluent_kafka import KafkaError, KafkaException

from halfhitch.errors import (
    ForbiddenTopic,
    HalfHitchError,
    InvalidPartition,
    KafkaUnavailable,
    MessageTooLarge,
    OutcomeUnknown,
    UnknownTopic,
)

#: What calls of a fenced producer may raise: the binding also returns with an error still set.
CLOSE_ERRORS = (KafkaException, RuntimeError, SystemError)

#: The broker (or the client) refused the record: surely not stored, and the next try is refused
#: too.
TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})

#: It looks as if no message for this topic can be stored: it is gone, or this user may not write.
TOPIC_REFUSED = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)

#: A forward that fails so will fail again, whatever else is in its Kafka transaction.
POISON = (
    TOO_LARGE
    | TOPIC_REFUSED
    | {
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
        KafkaError.INVALID_TIMESTAMP,
    }
)

#: Refused before anything was written.
_SURELY_NOT_STORED = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError._QUEUE_FULL,
    }
)


def append_error(error: KafkaError, topic: str) -> HalfHitchError:
    """Why an append to an internal topic failed. Whatever is not known to be a "no" is unknown."""
    code = error.code()
    if code in TOO_LARGE:
        return MessageTooLarge(
            f"Kafka refused the record for {topic!r} as too large; raise max.message.bytes of that "
            "topic or send a smaller message"
        )
    if code in _SURELY_NOT_STORED:
        return KafkaUnavailable(f"Kafka refused the record for {topic!r}: {error.str()}")
    return OutcomeUnknown(
        f"Kafka did not confirm the record for {topic!r} in time ({error.str()}); repeat the same "
        "request (a prepare under its id, an end with its handle): that is safe whether or not it "
        "was stored"
    )


def message_error(error: KafkaError, topic: str) -> HalfHitchError:
    """Why an append to a topic of the users failed; nothing would know a repeated one again."""
    code = error.code()
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return ForbiddenTopic(
            f"Kafka does not let Half Hitch write to {topic!r}: give it the right"
        )
    if code in TOPIC_REFUSED:
        return UnknownTopic(f"topic {topic!r} does not exist (any more); create it first")
    if code == KafkaError._UNKNOWN_PARTITION:
        return InvalidPartition(f"topic {topic!r} has no such partition: {error.str()}")
    if code in TOO_LARGE or code in _SURELY_NOT_STORED:
        return append_error(error, topic)
    return OutcomeUnknown(
        f"Kafka did not confirm the message for {topic!r} in time ({error.str()}): it may or may "
        "not be stored, and sending it again may store it twice"
    )


def describe(error: KafkaException | SystemError) -> str:
    """The sentence in what a call of Kafka's client raised."""
    first: Any = error.args[0] if error.args else error
    return str(first.str()) if isinstance(first, KafkaError) else str(first)
