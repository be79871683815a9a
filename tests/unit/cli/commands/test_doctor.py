"""What `halfhitch doctor` makes of the line that `halfhitch dev` prints; all else: test_cli.py."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from redis import ResponseError

from halfhitch.adapters.kafka.topics import Finding, Severity
from halfhitch.config import Purpose, load
from halfhitch.errors import BackendError
from halfhitch_cli import findings
from halfhitch_cli.app import main
from halfhitch_cli.client import TokenAsked
from halfhitch_cli.commands import doctor

if TYPE_CHECKING:
    from collections.abc import Callable

#: As dev's line has them: no handle key, which is the sidecar's own.
LOOKING = load({"kafka.bootstrap": "127.0.0.1:9092"}, purpose=Purpose.TOOL)
ONE_COPY = Finding("half", Severity.WARN, "one copy", "Fine for development.", is_right_in_dev=True)
STALE = Finding("watermarks", Severity.WARN, "behind", "Look at it.")


#: In place of an instance: the door asks for a token.
ASKS = "a token"


class Door:
    """An admin door that says whose it is, or does not answer."""

    address = "http://127.0.0.1:8341"

    def __init__(self, instance: str | None) -> None:
        self._instance = instance

    def get(self, path: str) -> tuple[int, object]:
        if self._instance is None:
            raise BackendError("nobody")
        if self._instance == ASKS:
            raise TokenAsked("a token")
        return 200, {"info": {"instance": self._instance}} if path == "/v1/status" else {}


@pytest.fixture
def looked(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[str | None], dict[str, Finding]]:
    def look(instance: str | None) -> dict[str, Finding]:
        shown: list[Finding] = []
        monkeypatch.setattr(doctor.AdminClient, "of", lambda _: Door(instance))
        monkeypatch.setattr(doctor, "_kafka", lambda *_: [ONE_COPY, STALE])
        monkeypatch.setattr(doctor, "kafka_settings", lambda _: LOOKING)
        monkeypatch.setattr(findings, "show", lambda _, found: shown.extend(found))

        class Given:
            def load(self, _: Purpose) -> object:
                return LOOKING

        doctor.doctor(Given())  # type: ignore[arg-type]
        return {finding.check: finding for finding in shown}

    return look


def test_what_is_right_in_dev_was_warned_about(looked: Callable[..., dict[str, Finding]]) -> None:
    found = looked("dev")
    assert found["half"].severity is Severity.OK
    assert found["settings"].severity is Severity.OK
    assert found["watermarks"].severity is Severity.WARN  # what is wrong in dev too


def test_elsewhere_one_copy_is_a_warning(looked: Callable[..., dict[str, Finding]]) -> None:
    found = looked("shop-1")
    assert found["half"].severity is Severity.WARN
    assert found["settings"].severity is Severity.OK  # a sidecar runs, so it had what it needs


def test_settings_that_start_no_sidecar_are_told_where_none_runs(
    looked: Callable[..., dict[str, Finding]],
) -> None:
    found = looked(None)
    assert found["settings"].severity is Severity.WARN
    assert "handle.key" in found["settings"].sentence
    assert found["half"].severity is Severity.WARN


def test_settings_were_judged_though_the_sidecar_only_asked_for_a_token(
    looked: Callable[..., dict[str, Finding]],
) -> None:
    told = looked(ASKS)["settings"]
    assert "asks for a token" in told.sentence
    assert "HALFHITCH_AUTH_TOKENS" in told.remedy
    assert doctor._brokers(1) == "1 broker"


def test_without_kafkas_address_nothing_else_was_looked_at(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HALFHITCH_KAFKA_BOOTSTRAP", raising=False)
    code = main(["doctor", "--admin-port", "1", "--redis-url", "redis://127.0.0.1:1", "-o", "json"])
    found = {row["check"]: row for row in json.loads(capsys.readouterr().out)["findings"]}
    assert code == 3
    assert found["Kafka"]["severity"] == "fail"
    assert "--kafka-bootstrap host:port" in found["Kafka"]["sentence"]
    assert "Redis at 127.0.0.1:1 does not answer" in found["Redis"]["sentence"]
    assert found["sidecar"]["severity"] == "warn"


@pytest.mark.parametrize(
    "url", ["redis+sentinel://127.0.0.1:1/shop", "redis+cluster://127.0.0.1:1"]
)
def test_an_address_of_sentinels_or_a_cluster_was_no_address_to_the_doctor(url: str) -> None:
    settings = load({"kafka.bootstrap": "k:1", "redis.url": url}, purpose=Purpose.TOOL)
    (found,) = doctor._redis(settings)
    assert found.severity is Severity.FAIL
    assert "Redis at" in found.sentence


def test_clocks_that_differ_are_told() -> None:
    assert doctor._clock(1_000_000, 1_003_000, 1_003_000) == []
    assert doctor._clock(1_000_000, 999_000, 1_060_000) == []  # a slow answer is no difference
    (ahead,) = doctor._clock(1_000_000, 1_060_000, 1_090_000)
    (behind,) = doctor._clock(1_060_000, 999_000, 1_000_000)
    assert "clock is 60 s ahead of that of Redis" in ahead.sentence
    assert "clock is 60 s behind that of Redis" in behind.sentence


@pytest.mark.parametrize(
    ("answer", "policies"),
    [
        ({"maxmemory_policy": "noeviction"}, None),
        ({"maxmemory_policy": "allkeys-lru"}, "allkeys-lru"),
        ({"a:1": {"maxmemory_policy": "volatile-ttl"}, "b:1": {}}, "volatile-ttl"),
        ({}, None),
        (ResponseError("NOPERM"), None),
    ],
)
def test_a_redis_that_forgets_when_it_is_full_is_told(answer: Any, policies: str | None) -> None:
    class Client:
        def info(self, section: str) -> Any:
            assert section == "memory"
            if isinstance(answer, Exception):
                raise answer
            return answer

    found = doctor._memory(Client())
    assert bool(found) is (policies is not None)
    assert all(str(policies) in finding.sentence for finding in found)


@pytest.mark.parametrize(
    ("theirs", "is_told"), [("cluster-1", False), ("cluster-2", True), (None, False)]
)
def test_a_sidecar_of_another_kafka_was_called_ready_and_all_was_well(
    monkeypatch: pytest.MonkeyPatch, theirs: str | None, is_told: bool
) -> None:
    info = {"kafka_cluster_id": theirs, "kafka_bootstrap": "theirs:9092"}
    door = SimpleNamespace(address="http://h:1", get=lambda _: (200, {"info": info}))
    monkeypatch.setattr(doctor.AdminClient, "of", lambda _: door)
    found = doctor._same_cluster(LOOKING, "cluster-1")
    assert [finding.severity for finding in found] == [Severity.FAIL] * is_told
    for finding in found:
        assert "http://h:1 works on another Kafka cluster, at theirs:9092" in finding.sentence


def test_the_doctor_looked_at_another_sidecar_than_it_was_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = ("doctor", "--wait-s", "0.5", "-o", "json", "--kafka-bootstrap", "127.0.0.1:1")
    monkeypatch.setenv("HALFHITCH_SERVER", "http://127.0.0.1:2")
    for words, port in ((told, 2), ((*told, "--server", "http://127.0.0.1:3"), 3)):
        main([*words])
        found = {row["check"]: row for row in json.loads(capsys.readouterr().out)["findings"]}
        assert f"127.0.0.1:{port}" in found["sidecar"]["sentence"]
