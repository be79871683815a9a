"""Which sidecar is spoken to."""

from __future__ import annotations

from pathlib import Path

import pytest

from halfhitch.errors import ConfigurationError
from halfhitch_cli import contexts
from halfhitch_cli.app import main
from harness.scripted_admin import STATUS, Door


def applied(
    flags: dict[str, object] | None = None, server: str | None = None, **environ: str
) -> dict[str, object]:
    return contexts.apply(flags or {}, None, server, None, environ)[0]


@pytest.mark.parametrize(
    ("server", "flags"),
    [
        ("http://127.0.0.1:9", {"admin.host": "127.0.0.1", "admin.port": "9"}),
        ("http://shop/", {"admin.host": "shop", "admin.port": "8341"}),
        ("https://[::1]:9", {"admin.host": "::1", "admin.port": "9", "client.tls": "true"}),
    ],
)
def test_one_address_stands_for_host_port_and_encryption(
    server: str, flags: dict[str, object]
) -> None:
    assert applied(server=server) == flags
    assert applied(HALFHITCH_SERVER=server) == flags


def test_a_flag_goes_before_the_environment() -> None:
    environ = {"HALFHITCH_SERVER": "http://a:1"}
    assert applied(server="http://b:2", **environ)["admin.host"] == "b"
    assert applied({"admin.port": "7"}, **environ) == {"admin.host": "a", "admin.port": "7"}
    with pytest.raises(ConfigurationError, match="leave --admin-host and -port out"):
        applied({"admin.port": "7"}, server="http://a:1")


@pytest.mark.parametrize(
    "server", ["shop:8341", "unix:/x", "http://", "http://a:b", "http://a:1/v1", "http://a?x"]
)
def test_what_is_no_address_is_told_with_good_ones(server: str) -> None:
    with pytest.raises(ConfigurationError, match=r"write it as http://127\.0\.0\.1:8341"):
        applied(server=server)


def test_a_profile_is_a_config_file_in_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: Door, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "halfhitch"
    folder.mkdir()
    (folder / "prod.toml").write_text(f"[admin]\nport = {door.port}\n")
    door.say("/v1/status", 200, STATUS)
    assert main(["status", "--profile", "prod"]) == 0
    monkeypatch.setenv("HALFHITCH_PROFILE", "prod")
    assert main(["status"]) == 0
    assert main(["status", "--server", f"http://127.0.0.1:{door.port}"]) == 0
    capsys.readouterr()
    assert main(["status", "--profile", "prd"]) == 2
    told = capsys.readouterr().err
    assert "There is no profile 'prd'" in told
    assert "(there: prod)" in told
    assert main(["status", "--profile", "../prod"]) == 2
    assert main(["status", "--profile", "prod", "--config", "x.toml"]) == 2
    assert "leave --config out" in capsys.readouterr().err


def test_without_a_folder_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"\(there: none\)"):
        contexts.apply({}, None, None, "prod", {"XDG_CONFIG_HOME": str(tmp_path)})
    path = Path("own.toml")
    given = contexts.apply({}, path, None, None, {"HALFHITCH_PROFILE": "prod"})
    assert given == ({}, path)  # a file that was named counts
