"""The table of settings is complete, and a dump of it is safe to show."""

import re
from dataclasses import asdict
from typing import Literal, get_origin

import msgspec
import pytest

from halfhitch.config import SETTINGS, KafkaSettings, Purpose, Setting, Settings, load

KEY = "k" * 32

UNITS = ("_s", "_ms", "_bytes", "_s_max", "_bytes_max", "_count_max", "_max", "_h")
#: Counts, whose name says what is counted, and factors, which have no unit.
PLAIN_NUMBERS = {
    "http.port",
    "admin.port",
    "topics.partitions",
    "topics.replication_factor",
    "audit.replication_factor",
    "checks.backoff",
    "checks.jitter",
    "rocketmq.port",
    "rocketmq.create_partitions",
}


def full_settings() -> Settings:
    return load(
        {
            "kafka.bootstrap": "kafka:9092",
            "kafka.options": {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.password": "kafka-password-1",
            },
            "redis.url": "redis://user:redis%21password@10.0.0.1:6379/0",
            "handle.key": ["first-handle-key-1", "second-handle-key"],
            "auth.tokens": "token-number-one-1,token-number-two-2",
        }
    )


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_every_setting_has_a_sentence_and_a_unit(setting: Setting) -> None:
    assert re.fullmatch(r"[A-Z`].+[.]", setting.description)
    assert "\n" not in setting.description
    if setting.plain_type in (int, float) and setting.key not in PLAIN_NUMBERS:
        name = setting.key.partition(".")[2]
        assert name.endswith(UNITS) or name == "s_max", f"{setting.key} names no unit"


def test_names_of_flags_and_variables_follow_from_the_key() -> None:
    by_key = {setting.key: setting for setting in SETTINGS}
    setting = by_key["kafka.start_wait_s"]
    assert setting.flag == "--kafka-start-wait-s"
    assert setting.env == "HALFHITCH_KAFKA_START_WAIT_S"
    assert len({s.flag for s in SETTINGS}) == len({s.env for s in SETTINGS}) == len(SETTINGS)
    assert all(s.metavar for s in SETTINGS)
    literal = by_key["log.level"]
    assert get_origin(literal.plain_type) is Literal
    assert literal.metavar == "debug|info|warning|error"
    assert by_key["owner.enabled"].metavar == "true|false"


def test_defaults_are_what_the_public_contract_says() -> None:
    settings = load({"kafka.bootstrap": "kafka:9092"}, purpose=Purpose.TOOL)
    shown = {row.key: row.value for row in settings.describe()}
    assert shown.pop("instance.id")
    assert {
        "kafka.start_wait_s": 30.0,
        "http.host": "127.0.0.1",
        "http.port": 8340,
        "messages.bytes_max": 1_000_000,
        "http.in_flight_max": 10_000,
        "admin.host": "127.0.0.1",
        "admin.port": 8341,
        "topics.prefix": "",
        "topics.partitions": 4,
        "topics.replication_factor": 3,
        "topics.allow": "*",
        "owner.enabled": True,
        "owner.batch_count_max": 2_000,
        "owner.batch_bytes_max": 4_000_000,
        "owner.payload_cache_bytes": 33_554_432,
        "owner.transaction_timeout_ms": 15_000,
        "owner.session_timeout_ms": 10_000,
        "ledger.horizon_s": 900,
        "ledger.finished_max": 600_000,
        "visible.wait_s_max": 30.0,
        "drain.s_max": 10.0,
        "log.level": "info",
        "log.format": "text",
    }.items() <= shown.items()


def test_a_dump_has_every_setting_its_source_and_no_secret() -> None:
    settings = full_settings()
    rows = settings.describe()
    assert [row.key for row in rows] == [setting.key for setting in SETTINGS]
    sources = {row.key: row.source for row in rows}
    assert sources["kafka.bootstrap"] == "flag --kafka-bootstrap"
    assert sources["http.port"] == "default"
    everything = repr(rows) + repr(settings) + str([asdict(row) for row in rows])
    for secret in settings.secrets():
        assert secret not in everything
    assert {row.key: row.value for row in rows}["handle.key"] == "***,***"


def test_secrets_for_the_log_filter_include_the_password_within_the_redis_url() -> None:
    assert {
        "token-number-one-1",
        "second-handle-key",
        "kafka-password-1",
        "redis!password",
        "redis%21password",
        "redis://user:redis%21password@10.0.0.1:6379/0",
    } <= set(full_settings().secrets())


def test_settings_are_frozen() -> None:
    settings = full_settings()
    with pytest.raises(AttributeError):
        settings.http.port = 1  # type: ignore[misc]
    with pytest.raises(AttributeError):
        settings.kafka = KafkaSettings()  # type: ignore[misc]
    with pytest.raises(TypeError):
        settings.kafka.options["acks"] = "0"  # type: ignore[index]
    assert issubclass(Settings, msgspec.Struct)


def test_the_query_of_the_callback_is_shown_to_nobody() -> None:
    settings = load(
        {"checks.url": "http://127.0.0.1:1/checks?key=canary-query"}, purpose=Purpose.CLIENT
    )
    (shown,) = [row.value for row in settings.describe() if row.key == "checks.url"]
    assert shown == "http://127.0.0.1:1/checks?***"
    assert "key=canary-query" in settings.secrets()
    plain = load({"checks.url": "http://127.0.0.1:1/checks"}, purpose=Purpose.CLIENT)
    assert "http://127.0.0.1:1/checks" in [row.value for row in plain.describe()]
