"""What `serve` and `dev` hand on, without starting anything."""

import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from halfhitch import composition
from halfhitch.access.identities import token_digest
from halfhitch.config import Settings
from halfhitch.errors import ConfigurationError
from halfhitch_cli.app import main
from halfhitch_cli.commands import dev
from halfhitch_cli.options import Given

GIVEN = Given(flags={}, config_path=None)


@pytest.mark.parametrize("create", [True, False])
def test_serve_runs_the_composition_and_ends_with_its_code(
    create: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Settings, bool]] = []

    def run(settings: Settings, *, create_topics: bool) -> int:
        seen.append((settings, create_topics))
        return 5

    monkeypatch.setattr(composition, "run", run)
    monkeypatch.setenv("HALFHITCH_HANDLE_KEY", "k" * 32)
    flags = ["--kafka-bootstrap", "k:1", "--topics-create", str(create).lower()]
    assert main(["serve", *flags]) == 5
    ((settings, create_topics),) = seen
    assert settings.kafka.bootstrap == "k:1"
    assert settings.sources["handle.key"] == "env HALFHITCH_HANDLE_KEY"
    assert create_topics is create


def test_data_of_dev_goes_where_the_desktop_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert dev._default_folder() == Path("/home/somebody/.local/share/halfhitch/dev")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert dev._default_folder() == Path("/data/halfhitch/dev")


def test_the_handle_key_of_a_folder_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    key = dev._handle_key(tmp_path / "a" / "b")
    assert dev._handle_key(tmp_path / "a" / "b") == key
    assert dev._handle_key(tmp_path / "other") != key
    assert len(key) >= 43
    assert (tmp_path / "a" / "b" / "handle.key").stat().st_mode & 0o077 == 0


def test_the_data_of_dev_are_for_its_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    dev._handle_key(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)  # as an earlier release made it
    dev._handle_key(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o775)
    dev._handle_key(shared)
    assert shared.stat().st_mode & 0o777 == 0o775, "it is not ours to close"


@pytest.mark.parametrize("lock", ["TOKENS", "IDENTITIES_FILE"])
def test_dev_with_a_token_refused_to_start_because_of_a_door_that_nobody_asked_for(
    lock: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The RocketMQ door is on by default in dev, and asks for no token."""
    identities = tmp_path / "identities.toml"
    identities.write_text(
        '[identities.shop]\nroles = ["produce"]\ngroups = ["shop"]\ntopics = ["*"]\n'
        f'tokens = ["sha256:{token_digest(b"t" * 20).hex()}"]\n'
    )
    monkeypatch.setenv(f"HALFHITCH_AUTH_{lock}", "t" * 20 if lock == "TOKENS" else str(identities))

    def settings(**flags: object) -> Settings:
        given = Given(
            flags={key.replace("__", "."): v for key, v in flags.items()}, config_path=None
        )
        return dev._settings(given, "k" * 32, bootstrap="127.0.0.1:1", redis_url="redis://h")

    assert not settings().rocketmq.enabled
    assert settings(rocketmq__access_keys="access:" + "s" * 16).rocketmq.enabled
    with pytest.raises(ConfigurationError, match=r"rocketmq\.access_keys"):
        settings(rocketmq__enabled="true")


def test_dev_help_said_that_the_rocketmq_door_is_closed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dev", "--help"]) == 0
    _, _, told = " ".join(capsys.readouterr().out.split()).partition("--rocketmq-enabled")
    assert told.partition("[default: ")[2].startswith("true")


def test_a_topic_that_was_there_with_fewer_partitions_was_not_told() -> None:
    wanted = {"orders": 4, "points": 1, "new": 2}
    (line,) = dev.fewer(wanted, {"orders": 1, "points": 1, "new": 2})
    assert line.startswith("The topic orders was there, with 1 partition, not 4.")


def test_dev_ignores_the_real_kafka_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALFHITCH_KAFKA_BOOTSTRAP", "real:9092")
    monkeypatch.setenv("HALFHITCH_KAFKA_OPTIONS", "security.protocol=SASL_SSL,sasl.mechanism=PLAIN")
    settings = dev._settings(GIVEN, "k" * 32, bootstrap="127.0.0.1:1", redis_url="redis://h")
    assert settings.kafka.bootstrap == "127.0.0.1:1"
    assert dict(settings.kafka.options) == {}
    assert settings.topics.replication_factor == 1
    assert settings.log.level == "error"
    monkeypatch.setenv("HALFHITCH_LOG_LEVEL", "debug")
    settings = dev._settings(GIVEN, "k" * 32, bootstrap="127.0.0.1:1", redis_url="redis://h")
    assert settings.log.level == "debug"


@pytest.mark.parametrize("needs_token", [True, False])
def test_the_banner_holds_commands_for_a_shell(needs_token: bool) -> None:
    running = dev._Running(
        kafka=cast("Any", SimpleNamespace(bootstrap="127.0.0.1:9092")),
        redis=cast("Any", SimpleNamespace(url="redis://127.0.0.1:6379/0")),
        folder=Path("/data"),
        topics={"bills": 1, "points": 2},
    )
    text = dev.banner(
        data_door="http://127.0.0.1:8340",
        admin_door="http://127.0.0.1:8341",
        needs_token=needs_token,
        running=running,
    )
    start = text.index("  HANDLE=$(curl")
    script = text[start:].partition("\n\n")[0]
    subprocess.run(["/bin/sh", "-n", "-c", script], check=True, timeout=20)
    assert '"topic":"bills"' in script
    assert script.count("Half-Token: $TOKEN") == (2 if needs_token else 0)
    assert ("TOKEN=..." in text) is needs_token
    assert "Every user of this machine" in text
    assert ("they are one trust domain" in text) is not needs_token
    assert all(word in text for word in ("8341", "9092", "6379", "/data", "bills, points"))
    assert shlex.split(script.replace("\\\n", ""))


def test_a_door_that_is_bound_everywhere_is_shown_on_loopback() -> None:
    assert dev._url("0.0.0.0", 1) == "http://127.0.0.1:1"
    assert dev._url("::", 1) == "http://[::1]:1"
    assert dev._url("127.0.0.1", 8340) == "http://127.0.0.1:8340"
