"""What the shell offers while a command is typed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch_cli import completing
from halfhitch_cli.app import main

if TYPE_CHECKING:
    from harness.fake_operations import FakeOperations
    from harness.scripted_admin import Door


@pytest.fixture
def complete(
    operations: FakeOperations,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Any:
    from harness.admin_door import admin_door

    with admin_door(operations, {}) as port:
        monkeypatch.setenv("HALFHITCH_SERVER", f"http://127.0.0.1:{port}")

        def complete(words: str) -> list[str]:
            monkeypatch.setenv("_HALFHITCH_COMPLETE", "complete_bash")
            monkeypatch.setenv("COMP_WORDS", words)
            monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
            with pytest.raises(SystemExit):
                main([])
            captured = capsys.readouterr()
            assert captured.err == ""
            return captured.out.split()

        yield complete


def test_an_id_had_to_be_copied_by_hand(complete: Any) -> None:
    assert complete("halfhitch tx show ") == ["T1", "T2"]
    assert complete("halfhitch tx commit T1") == ["T1"]
    assert complete("halfhitch tx show --group bank ") == ["T2"]
    assert complete("halfhitch parked show ") == ["P1", "P2"]


def test_groups_are_those_that_the_sidecar_knows(complete: Any) -> None:
    assert complete("halfhitch tx list --group ") == ["bank", "shop"]
    assert complete("halfhitch producers --group s") == ["shop"]


def test_nobody_there_is_no_error(complete: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALFHITCH_SERVER", "http://127.0.0.1:1")
    assert complete("halfhitch tx show ") == []
    monkeypatch.setenv("HALFHITCH_SERVER", "nonsense")
    assert complete("halfhitch tx list --group ") == []
    assert complete("halfhitch tail ") == []


def test_what_a_shell_would_run_is_not_offered(door: Door) -> None:
    names = ["good", "$(reboot)", "a b", "c;d", "e\x1b[2J", "f'g", "`h`"]
    door.say("/v1/names?limit=1000", 200, {"names": {"shop": names}})
    context: Any = SimpleNamespace(params={"setting_admin_port": str(door.port)})
    assert completing.undecided(context, "") == ["good"]


def test_topics_are_kafkas_without_ours(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    class Admin:
        def __init__(self, config: dict[str, Any]) -> None:
            asked.append(config)

        def list_topics(self, timeout: float) -> Any:
            names = ["orders", "points", "a.RMQ_SYS_TRANS_HALF_TOPIC", "__consumer_offsets"]
            return SimpleNamespace(topics=dict.fromkeys(names))

    monkeypatch.setattr("confluent_kafka.admin.AdminClient", Admin)
    monkeypatch.delenv("HALFHITCH_KAFKA_BOOTSTRAP", raising=False)
    info = {"kafka_bootstrap": "k:9092", "topic_prefix": "a."}
    door.say("/v1/status", 200, {"info": info})
    context: Any = SimpleNamespace(params={"setting_admin_port": str(door.port)})
    assert completing.topics(context, "") == ["orders", "points"]
    assert completing.topics(context, "o") == ["orders"]
    assert asked[0]["bootstrap.servers"] == "k:9092"
