"""Only options on the allow-list reach Kafka; each refusal says why."""

from pathlib import Path

import pytest

from halfhitch.config import KafkaOptions, Secret
from halfhitch.errors import ConfigurationError


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("plugin.library.paths", "loads code"),
        ("sasl.kerberos.kinit.cmd", "shell command"),
        ("ssl.engine.location", "loads code"),
        ("ssl.providers", "loads code"),
        ("sasl.oauthbearer.assertion.file", "fetch an address"),
        ("https.ca.pem", "fetch an address"),
        ("sasl.oauthbearer.method", "only oidc"),
        ("ssl.endpoint.identification.algorithm", "kafka.verify_host_names"),
        ("sasl.oauthbearer.config", "fetch an address"),
        ("enable.sasl.oauthbearer.unsecure.jwt", "fetch an address"),
        ("enable.ssl.certificate.verification", "anybody can pose as Kafka"),
        ("test.mock.num.brokers", "mock"),
        ("debug", "secrets to the log"),
        ("log_level", "log.level"),
        ("oauth_cb", "code"),
        ("acks", "promises"),
        ("enable.idempotence", "promises"),
        ("transactional.id", "promises"),
        ("group.id", "promises"),
        ("group.instance.id", "instance.id"),
        ("client.id", "instance.id"),
        ("isolation.level", "promises"),
        ("enable.auto.commit", "promises"),
        ("auto.offset.reset", "promises"),
        ("allow.auto.create.topics", "promises"),
        ("partitioner", "promises"),
        ("max.in.flight.requests.per.connection", "promises"),
        ("transaction.timeout.ms", "owner.transaction_timeout_ms"),
        ("session.timeout.ms", "owner.session_timeout_ms"),
        ("message.timeout.ms", "derived"),
        ("socket.timeout.ms", "derived"),
        ("max.poll.interval.ms", "derived"),
        ("statistics.interval.ms", "derived"),
        ("bootstrap.servers", "kafka.bootstrap"),
        ("metadata.broker.list", "kafka.bootstrap"),
        ("message.max.bytes", "messages.bytes_max"),
        ("linger.ms", "measured"),
        ("fetch.min.bytes", "measured"),
        ("queued.max.messages.kbytes", "measured"),
    ],
)
def test_locked_and_dangerous_options_are_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        KafkaOptions({name: "true"})
    assert name in caught.value.message
    assert reason in caught.value.message
    assert "\n" not in caught.value.message


def test_an_option_nobody_knows_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigurationError, match=r"did you mean security\.protocol\?"):
        KafkaOptions({"security_protocol": "SSL"})


def test_each_client_gets_the_options_of_its_role_as_text() -> None:
    options = KafkaOptions(
        {
            "client.rack": "a",
            "compression.type": "lz4",
            "max.partition.fetch.bytes": 1000,
            "socket.keepalive.enable": True,
        }
    )
    shared = {"client.rack": "a", "socket.keepalive.enable": "true"}
    assert options.for_client("admin") == shared
    assert options.for_client("producer") == {**shared, "compression.type": "lz4"}
    assert options.for_client("consumer") == {**shared, "max.partition.fetch.bytes": "1000"}


def test_passwords_are_hidden_until_a_client_is_made() -> None:
    options = KafkaOptions({"sasl.password": "open sesame", "sasl.username": "app"})
    assert isinstance(options["sasl.password"], Secret)
    assert "open sesame" not in repr(options)
    assert options.for_client("producer")["sasl.password"] == "open sesame"


def test_a_password_from_a_file_joins_the_others() -> None:
    before = KafkaOptions({"sasl.username": "app"})
    after = before.with_secret("sasl.password", "open sesame")
    assert after.for_client("admin") == {"sasl.username": "app", "sasl.password": "open sesame"}
    assert dict(before) == {"sasl.username": "app"}


@pytest.mark.parametrize("value", ["", None, [], {}, "a\nb", "a\0b"])
def test_values_that_are_no_option_values_are_refused_without_being_shown(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.options\.sasl\.password"):
        KafkaOptions({"sasl.password": value})


def test_a_pem_may_have_lines() -> None:
    pem = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"
    assert KafkaOptions({"ssl.ca.pem": pem})["ssl.ca.pem"] == pem


def test_files_must_be_readable(tmp_path: Path) -> None:
    good = tmp_path / "ca.pem"
    good.write_text("x")
    assert len(KafkaOptions({"ssl.ca.location": str(good)})) == 1
    assert len(KafkaOptions({"ssl.ca.location": str(tmp_path)})) == 1
    assert len(KafkaOptions({"ssl.ca.location": "probe"})) == 1
    with pytest.raises(ConfigurationError, match="cannot be read"):
        KafkaOptions({"ssl.key.location": str(tmp_path / "nothing")})
    with pytest.raises(ConfigurationError, match="cannot be read"):
        KafkaOptions({"ssl.key.location": str(tmp_path)})
