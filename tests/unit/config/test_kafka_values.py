"""The table of values is what the client itself takes."""

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from halfhitch.config import KafkaOptions
from halfhitch.config.kafka_options import NAMES
from halfhitch.config.kafka_values import NUMBERS, WORDS, taken
from halfhitch.errors import ConfigurationError

_SIGN_IN = {"security.protocol": "SASL_SSL", "sasl.username": "a", "sasl.password": "b"}


def client_takes(name: str, text: str) -> bool:
    """Whether librdkafka makes a client of it, which calls nobody."""
    options = {"bootstrap.servers": "127.0.0.1:1", name: text}
    try:
        if name.startswith(("fetch.", "max.")):
            Consumer({**options, "group.id": "a"}).close()
        elif name.startswith("sasl."):
            Producer({**_SIGN_IN, **options})
        else:
            Producer(
                {**options, "sasl.mechanism": "PLAIN", "sasl.username": "a"} | _SIGN_IN | options
            )
    except KafkaException:
        return False
    return True


@pytest.mark.parametrize("name", NUMBERS)
def test_bounds_are_the_clients_own(name: str) -> None:
    least, most = NUMBERS[name]
    for number in (least, most):
        assert client_takes(name, taken(name, str(number)))
    for number in (least - 1, most + 1):
        assert not client_takes(name, str(number))
        with pytest.raises(ConfigurationError, match=f"a whole number from {least} to {most}"):
            taken(name, str(number))


@pytest.mark.parametrize("name", WORDS)
def test_words_are_the_clients_own(name: str) -> None:
    for word in set(WORDS[name]) - {"GSSAPI"}:  # which a client has only if it was built so
        for text in (word, word.lower(), word.upper()):
            assert client_takes(name, taken(name, text)), text
    for text in ("SLS", "none of these", "yes", "2"):
        assert not client_takes(name, text)
        with pytest.raises(ConfigurationError, match="Kafka's client takes"):
            taken(name, text)


@pytest.mark.parametrize("text", ["1e6", "08", "0x10", "1.5", "", " 1", "many", "9" * 30])
def test_a_number_that_the_client_would_read_as_another_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"must not set batch\.size to"):
        taken("batch.size", text)


def test_a_number_of_another_kind_is_the_number() -> None:
    assert KafkaOptions({"batch.size": 1e6})["batch.size"] == "1000000"


def test_a_mechanism_in_small_letters_is_written_as_the_client_hears_it() -> None:
    """It ended a start: librdkafka takes capitals alone."""
    options = KafkaOptions({"sasl.mechanism": "scram-sha-512"})
    assert options["sasl.mechanism"] == "SCRAM-SHA-512"


def test_a_misspelt_protocol_is_told_with_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError) as caught:
        KafkaOptions({"security.protocol": "SLS"})
    assert caught.value.message == (
        "kafka.options must not set security.protocol to 'SLS': Kafka's client takes PLAINTEXT, "
        "SSL, SASL_PLAINTEXT or SASL_SSL."
    )


def test_every_name_may_be_set() -> None:
    assert {*WORDS, *NUMBERS} <= NAMES
