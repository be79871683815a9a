"""Kafka's errors as ours: surely not stored, or can nobody say?"""

import pytest
from confluent_kafka import KafkaError, KafkaException

from halfhitch import errors
from halfhitch.adapters.kafka.errors import append_error, describe, message_error


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, errors.MessageTooLarge),
        (KafkaError.RECORD_LIST_TOO_LARGE, errors.MessageTooLarge),
        (KafkaError.NOT_ENOUGH_REPLICAS, errors.KafkaUnavailable),
        (KafkaError._QUEUE_FULL, errors.KafkaUnavailable),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, errors.KafkaUnavailable),
        (KafkaError._MSG_TIMED_OUT, errors.OutcomeUnknown),
        (KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, errors.OutcomeUnknown),
        (KafkaError._PURGE_INFLIGHT, errors.OutcomeUnknown),
    ],
)
def test_an_append_that_is_not_known_to_be_refused_is_unknown(
    code: int, kind: type[errors.HalfHitchError]
) -> None:
    found = append_error(KafkaError(code), "half")
    assert type(found) is kind
    assert "'half'" in str(found)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, errors.ForbiddenTopic),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, errors.UnknownTopic),
        (KafkaError._UNKNOWN_PARTITION, errors.InvalidPartition),
        (KafkaError.MSG_SIZE_TOO_LARGE, errors.MessageTooLarge),
        (KafkaError.NOT_ENOUGH_REPLICAS, errors.KafkaUnavailable),
        (KafkaError._MSG_TIMED_OUT, errors.OutcomeUnknown),
    ],
)
def test_a_plain_message_blames_who_chose_its_topic(
    code: int, kind: type[errors.HalfHitchError]
) -> None:
    assert type(message_error(KafkaError(code), "orders")) is kind


def test_a_plain_message_that_may_be_stored_is_not_to_be_repeated_without_thought() -> None:
    told = str(message_error(KafkaError(KafkaError._MSG_TIMED_OUT), "orders"))
    assert "may store it twice" in told
    told = str(append_error(KafkaError(KafkaError._MSG_TIMED_OUT), "half"))
    assert "a prepare under its id, an end with its handle" in told


def test_whatever_a_call_raised_has_a_sentence() -> None:
    known = KafkaError(KafkaError._STATE, "it is closed")
    assert describe(KafkaException(known)) == "it is closed"
    assert describe(KafkaException("a text")) == "a text"
    assert describe(SystemError("a bug")) == "a bug"
    assert describe(KafkaException()) == ""
