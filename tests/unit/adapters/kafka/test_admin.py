"""What the answers of an AdminClient mean: no answer is never a "no"."""

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from halfhitch.adapters.kafka import admin
from halfhitch.errors import BackendError, ConfigurationError, KafkaUnavailable, TopologyError


def failed(code: int) -> "Future[object]":
    future: Future[object] = Future()
    future.set_exception(KafkaException(KafkaError(code)))
    return future


def test_a_result_is_handed_on() -> None:
    future: Future[object] = Future()
    future.set_result("x")
    assert admin.answer(future, 1.0, "look") == "x"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._TIMED_OUT, KafkaUnavailable),
        (KafkaError._TRANSPORT, KafkaUnavailable),
        (KafkaError.REQUEST_TIMED_OUT, KafkaUnavailable),
        (KafkaError.NOT_CONTROLLER, KafkaUnavailable),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaUnavailable),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, ConfigurationError),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, ConfigurationError),
        (KafkaError.INVALID_REPLICATION_FACTOR, TopologyError),
        (KafkaError.POLICY_VIOLATION, TopologyError),
        (KafkaError.INVALID_CONFIG, TopologyError),
    ],
)
def test_errors_say_what_was_tried_and_whose_matter_it_is(
    code: int, kind: type[BackendError | ConfigurationError]
) -> None:
    with pytest.raises(kind) as caught:
        admin.answer(failed(code), 1.0, "look at the topic x")
    assert type(caught.value) is kind
    assert "look at the topic x" in caught.value.message


def test_one_code_can_be_an_answer_too() -> None:
    code = KafkaError.UNKNOWN_TOPIC_OR_PART
    assert admin.answer(failed(code), 1.0, "look", code) is None


def test_a_future_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_GRACE_S", 0.01)
    with pytest.raises(KafkaUnavailable, match=r"did not answer within 0\.01 s"):
        admin.answer(Future(), 0.01, "look")
