"""The quick probe: what it says of a door that is well, unwell, away, or none."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from halfhitch.doors.tls import ServerTls
from halfhitch_cli import probing
from halfhitch_cli.app import main
from halfhitch_cli.probing import NO_ANSWER, OK, UNHEALTHY, USAGE, probe, quick
from harness.admin_door import admin_door
from harness.certificates import Authority
from harness.fake_operations import FakeOperations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def answering(text: bytes) -> Iterator[int]:
    """A listener that gives each caller that answer and hangs up; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1_000)
                    connection.sendall(text)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("question", probing.QUESTIONS)
def test_a_sidecar_that_is_well_is_worth_no_word(
    question: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with admin_door(FakeOperations(), {}, tokens=["a-token-that-probes-do-not-have"]) as port:
        assert quick([question], {"HALFHITCH_ADMIN_PORT": str(port)}) == OK
    assert capsys.readouterr() == ("", "")


def test_a_door_that_binds_every_address_is_asked_on_loopback() -> None:
    with admin_door(FakeOperations(), {}) as port:
        assert probe("livez", "0.0.0.0", port, is_encrypted=False).code == OK


def test_a_door_with_tls_is_asked_over_tls(tmp_path: Path) -> None:
    files = Authority(tmp_path).issue("admin").files("admin", protocols=("http/1.1",))
    with admin_door(FakeOperations(), {}, tls=ServerTls(files, lambda: 0)) as port:
        assert probe("livez", "127.0.0.1", port, is_encrypted=True) == (OK, "")
        told = {"HALFHITCH_ADMIN_PORT": str(port), "HALFHITCH_ADMIN_TLS_CERT": "/cert.pem"}
        assert quick(["livez"], told) == OK


def test_the_reasons_are_told() -> None:
    body = b'{"ready":false,"reasons":["Kafka has not been reached\x1b[31m"]}'
    with answering(b"HTTP/1.1 503 Service Unavailable\r\nX: y\r\n\r\n" + body) as port:
        found = probe("readyz", "127.0.0.1", port, is_encrypted=False)
    assert found.code == UNHEALTHY
    assert "Kafka has not been reached?[31m" in found.text


@pytest.mark.parametrize("text", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1\r\n\r\n"])
def test_what_is_no_sidecar_is_not_called_unhealthy(text: bytes) -> None:
    with answering(text) as port:
        found = probe("livez", "127.0.0.1", port, is_encrypted=False)
    assert found.code == NO_ANSWER
    assert "no sidecar" in found.text


def test_nobody_there_is_not_called_unhealthy(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    assert quick([], {"HALFHITCH_ADMIN_PORT": str(port)}) == NO_ANSWER
    assert f"No sidecar answers on 127.0.0.1:{port}" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["tcp://10.0.0.1:8341", "0", "70000", "\u0663"])
def test_a_port_that_is_none_is_wrong_usage(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert quick(["livez"], {"HALFHITCH_ADMIN_PORT": port}) == USAGE
    assert "HALFHITCH_ADMIN_PORT" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "environ"),
    [
        (["livez", "--admin-port", "1"], {}),
        (["--help"], {}),
        (["healthy"], {}),
        ([], {"HALFHITCH_CONFIG": "/etc/halfhitch.toml"}),
    ],
)
def test_what_the_environment_does_not_say_is_left_to_the_command(
    given: list[str], environ: dict[str, str]
) -> None:
    assert quick(given, environ) is None


def test_the_command_line_takes_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    with admin_door(FakeOperations(), {}) as port:
        monkeypatch.setenv("HALFHITCH_ADMIN_PORT", str(port))
        assert main(["healthcheck", "livez"]) == OK


def test_a_probe_loads_nothing_that_is_heavy() -> None:
    program = (
        "import sys; from halfhitch_cli.app import main; main(['healthcheck', 'livez']);"
        "print(sorted({'typer', 'msgspec', 'ssl', 'asyncio', 'http.client'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(sys.path), "HALFHITCH_ADMIN_PORT": str(free_port())},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "[]\n"
