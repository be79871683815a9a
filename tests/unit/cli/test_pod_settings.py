"""Settings that cannot stand in a manifest, or do not fit together, are told; files are named."""

from __future__ import annotations

import pytest

from halfhitch.errors import ConfigurationError
from halfhitch_cli.pod_settings import Given
from harness.injected import LEAST

_SASL = "security.protocol=SASL_SSL,sasl.mechanism=PLAIN,sasl.username=u"


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("kafka.bootstrp", "k:9092", "kafka.bootstrap"),
        ("instance.id", "a", "the name of the pod"),
        ("handle.key_file", "/etc/key", "none of the pod's"),
        ("handle.key_file", "secret:Halfhitch", "secret:NAME/KEY"),
    ],
)
def test_what_cannot_be_given_is_told(key: str, value: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Given.of({**LEAST, key: value})


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("kafka.options", [_SASL + ",sasl.password=x"], "--kafka-sasl-password-file"),
        ("redis.url", "redis://r:6379", "--redis-url-file"),
        ("handle.key", "a-key-of-sixteen-bytes-and-more", "--handle-key-file"),
        ("checks.interval_s", "0", "checks.interval_s"),
    ],
)
def test_what_must_not_stand_in_a_manifest_is_told(key: str, value: object, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Given.of({**LEAST, key: value}).checked()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"http.tls_key": "secret:a/k"}, "http.tls_key is set without http.tls_cert"),
        (
            {"auth.token_file": "secret:a/t", "rocketmq.enabled": "true"},
            "the RocketMQ door asks for no token",
        ),
        ({"kafka.sasl_password_file": "secret:a/p"}, "add security.protocol=SASL_SSL"),
        (
            {"checks.url": "http://shop:80/check", "checks.url_token_file": "secret:a/t"},
            "checks.url leads to shop without TLS",
        ),
    ],
)
def test_files_that_do_not_fit_together_went_unnoticed(flags: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Given.of({**LEAST, **flags}).checked()


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("sasl.password", "give --kafka-sasl-password-file secret:NAME/KEY"),
        ("sasl.oauthbearer.client.secret", "give --kafka-oauth-client-secret-file"),
        ("ssl.key.password", "a key without a password"),
        ("sasl.username", "sasl.username names no file"),
        ("sasl.pasword", "did you mean sasl.password"),
    ],
)
def test_the_path_of_a_secret_was_the_password(option: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Given.of({**LEAST, "kafka.options": [f"{option}=secret:kafka/password"]}).checked()


@pytest.mark.parametrize("door", ["http", "admin", "rocketmq"])
def test_a_port_that_nobody_knows_was_taken(door: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{door}\.port is 0, .* from 1 to 65535"):
        Given.of({**LEAST, f"{door}.port": "0"}).checked()


@pytest.mark.parametrize("behind", [", ", ",\t", ",  "])
@pytest.mark.parametrize("name", ["sasl.password", "sasl.password ", "SASL.PASSWORD"])
@pytest.mark.parametrize("first", [_SASL, "security.protocol=SASL_SSL", "client.rack=a"])
def test_a_blank_carried_a_password_into_the_manifest(first: str, name: str, behind: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Given.of({**LEAST, "kafka.options": [f"{first}{behind}{name}=hunter2"]}).checked()
    assert "hunter2" not in str(refused.value)


def test_a_blank_made_a_secrets_path_a_part_of_another_value() -> None:
    with pytest.raises(ConfigurationError, match=r"sasl\.username names no file"):
        Given.of({"kafka.options": ["sasl.mechanism=PLAIN, sasl.username = secret:kafka/user"]})
    given = Given.of({"kafka.options": ["client.rack=a, ssl.ca.location=secret:kafka/ca"]})
    assert list(given.references) == ["ssl.ca.location"]


def test_a_path_in_an_annotation_lost_to_the_reference_of_a_flag() -> None:
    flags = Given.of({"kafka.options": ["security.protocol=SSL,ssl.ca.location=secret:kafka/ca"]})
    annotation = "security.protocol=SSL, ssl.ca.location=/etc/ssl/ca.pem"
    given = flags.with_annotations({"halfhitch/kafka.options": annotation})
    assert not given.references
    assert given.texts["kafka.options"] == annotation.split(", ")


@pytest.mark.parametrize(
    ("flags", "annotation", "options"),
    [
        (
            ["security.protocol=SSL,client.rack=a"],
            "client.rack=b",
            ["security.protocol=SSL", "client.rack=b"],
        ),
        (
            ['{"security.protocol": "SSL", "client.rack": "a"}'],
            '{"client.rack": "b"}',
            ['{"security.protocol": "SSL"}', '{"client.rack": "b"}'],
        ),
        (['{"client.rack": "a"}'], "client.rack=b", ["client.rack=b"]),
        (["sasl.mechanism=PLAIN"], "sasl.mechanisms=GSSAPI", ["sasl.mechanisms=GSSAPI"]),
        (["{", "client.rack=a"], "{", ["{", "client.rack=a", "{"]),
        (["ssl.ca.location=/etc"], "ssl.ca.location=secret:kafka/ca", []),
    ],
)
def test_one_option_in_an_annotation_took_all_of_the_flags_away(
    flags: list[str], annotation: str, options: list[str]
) -> None:
    given = Given.of({"kafka.options": flags})
    found = given.with_annotations({"halfhitch/kafka.options": annotation})
    assert found.options == options
