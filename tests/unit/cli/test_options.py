"""Every setting is a flag, and every flag is that setting."""

import re
from pathlib import Path

import pytest

from halfhitch.config import SETTINGS, Purpose
from halfhitch_cli import options
from halfhitch_cli.app import main
from halfhitch_cli.commands import serve

Capture = pytest.CaptureFixture[str]


def test_serve_has_every_setting_as_a_flag_under_its_heading(capsys: Capture) -> None:
    assert main(["serve", "--help"]) == 0
    out = capsys.readouterr().out
    assert set(re.findall(r"^ {2}(--\S+)", out, re.MULTILINE)) == {
        setting.flag for setting in SETTINGS
    } | {"--config"}
    for setting in SETTINGS:
        assert f"\n{setting.panel}:\n" in out
    assert "[default: 8340]" in out
    assert "HALFHITCH_HTTP_PORT" in out


def test_flags_reach_the_settings_as_they_were_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "h.toml"
    path.write_text('[topics]\nprefix = "from-file."\nallow = ["x"]\n')
    monkeypatch.setenv("HALFHITCH_HTTP_HOST", "127.0.0.9")
    given: list[options.Given] = []
    monkeypatch.setattr(serve, "serve", lambda given_: given.append(given_) or 0)
    app = serve.typer.Typer(add_completion=False)

    def probe(given: options.Given) -> int:
        caught.append(given)
        return 7

    caught: list[options.Given] = []
    app.command()(options.settings_command(probe))
    code = app(
        args=[
            *("--config", str(path), "--kafka-bootstrap", "k:1", "--handle-key", "k" * 16),
            *("--topics-prefix", "", "--topics-allow", "a,b", "--topics-allow", "c"),
            *("--kafka-options", "client.rack=a", "--kafka-options", "broker.address.family=v4"),
            *("--owner-enabled", "false"),
        ],
        standalone_mode=False,
    )
    assert code == 7
    settings = caught[0].load(Purpose.SERVE)
    assert settings.kafka.bootstrap == "k:1"
    assert settings.topics.prefix == ""
    assert settings.topics.allow == ("a", "b", "c")
    assert dict(settings.kafka.options) == {"client.rack": "a", "broker.address.family": "v4"}
    assert settings.owner.enabled is False
    assert settings.http.host == "127.0.0.9"
    assert set(caught[0].flags) == {
        *("kafka.bootstrap", "handle.key", "topics.prefix", "topics.allow"),
        *("kafka.options", "owner.enabled"),
    }


def test_a_command_can_take_some_settings_and_flags_of_its_own(capsys: Capture) -> None:
    assert main(["topics", "init", "--help"]) == 0
    out = capsys.readouterr().out
    assert "--repair" in out
    assert "--topics-partitions" in out
    assert "--messages-bytes-max" in out
    assert "--http-port" not in out


def test_values_a_command_adds_win_over_flags() -> None:
    given = options.Given(flags={"http.port": "1"}, config_path=None)
    assert given.load(Purpose.CLIENT, http__port=2).http.port == 2


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({}, []),
        ({"http.port": "1", "kafka.options": ["client.rack=a"]}, []),
        ({"auth.tokens": "t" * 16}, ["--auth-tokens", "HALFHITCH_AUTH_TOKENS"]),
        ({"redis.url": "redis://127.0.0.1:6379/0"}, []),
        ({"redis.url": "redis://:canary@redis/0"}, ["--redis-url", "HALFHITCH_REDIS_URL"]),
        (
            {
                "kafka.options": [
                    "security.protocol=SASL_SSL",
                    "sasl.mechanism=PLAIN",
                    "sasl.password=canary",
                ]
            },
            ["--kafka-options", "HALFHITCH_KAFKA_OPTIONS"],
        ),
    ],
)
def test_secrets_given_as_flags_are_told_once_and_not_repeated(
    flags: dict[str, object], said: list[str], capsys: Capture
) -> None:
    given = options.Given(flags=flags, config_path=None)
    settings = given.load(Purpose.CLIENT, handle__key="k" * 16)
    options.warn_of_secrets(given, settings)
    err = capsys.readouterr().err
    assert err.count("\n") == (1 if said else 0)
    assert all(word in err for word in said)
    assert "canary" not in err
    assert "tttt" not in err
