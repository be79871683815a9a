"""docs/tls.md, pasted as it stands there, against a sidecar that other machines may reach."""

from __future__ import annotations

import re
import ssl
import subprocess
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from halfhitch_cli.app import main
from harness.certificates import Authority, Pair
from harness.kafka import create_topics, fresh_name, read_all, wait_until
from harness.sidecar import Sidecar
from harness.snippets import ROOT, replaced

if TYPE_CHECKING:
    from pathlib import Path

    from halfhitch.embedded import EmbeddedKafka

pytestmark = pytest.mark.kafka

PAGE = (ROOT / "docs" / "tls.md").read_text()
TOKEN = "t" * 32


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def settings(folder: Path) -> dict[str, str]:
    certificate = {"CERT": "sidecar.pem", "KEY": "sidecar.key", "CLIENT_CA": "ca.pem"}
    given = {
        f"HALFHITCH_{door}_TLS_{name}": str(folder / file)
        for door in ("HTTP", "ADMIN")
        for name, file in certificate.items()
    }
    return {
        **given,
        "HALFHITCH_HTTP_HOST": "0.0.0.0",
        "HALFHITCH_ADMIN_HOST": "0.0.0.0",
        "HALFHITCH_HTTP_TLS_CLIENTS": "required",
        "HALFHITCH_ADMIN_TLS_CLIENTS": "wanted",
        "HALFHITCH_AUTH_TOKENS": TOKEN,
    }


def certificate_of(port: int, authority: Path) -> dict[str, Any]:
    import socket

    context = ssl.create_default_context(cafile=str(authority))
    with (
        socket.create_connection(("127.0.0.1", port), 20) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as encrypted,
    ):
        return encrypted.getpeercert() or {}


def test_the_page_leads_to_messages_over_tls_and_a_renewal_without_a_restart(
    kafka: EmbeddedKafka,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make, _, curl, _ = blocks("sh")
    (program,) = blocks("python")
    monkeypatch.chdir(tmp_path)
    subprocess.run(["sh", "-ec", make], check=True, capture_output=True)
    topic = fresh_name("tls")
    create_topics(kafka.bootstrap, {topic: 1})
    given = {"HALFHITCH_TOPICS_PREFIX": topic + "-", "HALFHITCH_TOPICS_CREATE": "true"}
    with Sidecar(kafka.bootstrap, tmp_path, **settings(tmp_path), **given) as sidecar:
        authority = ssl.create_default_context(cafile="ca.pem")

        def is_ready() -> bool:
            try:
                address = f"https://127.0.0.1:{sidecar.admin_port}/readyz"
                with urlopen(address, timeout=5, context=authority) as answer:
                    return answer.status == 204
            except URLError:
                return False

        wait_until(lambda: sidecar.exit_code is not None or is_ready(), 60, what="readiness")
        assert sidecar.exit_code is None, sidecar.log.read_text()
        told = re.search(r"serving on https://0\.0\.0\.0:(\d+)", sidecar.log.read_text())
        assert told is not None
        port = int(told[1])

        asked = replaced(curl, "127.0.0.1:8340", f"127.0.0.1:{port}")
        asked = replaced(asked, "curl", f"curl -sS -H 'Half-Token: {TOKEN}'")
        done = subprocess.run(["sh", "-ec", asked], check=True, capture_output=True, text=True)
        assert done.stdout.startswith("openapi:")

        program = replaced(
            program, '"https://127.0.0.1:8340"', f'"https://127.0.0.1:{port}", "{TOKEN}"'
        )
        program = replaced(program, '"orders"', f'"{topic}"')
        exec(compile(program, "docs/tls.md", "exec"), {})
        wait_until(lambda: bool(read_all(kafka.bootstrap, topic)), 40, what="the message")

        monkeypatch.setenv("HALFHITCH_AUTH_TOKENS", TOKEN)
        status = ["status", "--admin-port", str(sidecar.admin_port), "--client-ca-file", "ca.pem"]
        assert main(status) == 0, capsys.readouterr().err
        assert "working" in capsys.readouterr().out

        other = Authority(tmp_path / "other", "Another authority")
        pair = Pair(tmp_path / "sidecar.pem", tmp_path / "sidecar.key")
        pair.replace(other.issue("renewed"))

        def is_renewed() -> bool:
            try:
                subject = certificate_of(sidecar.admin_port, other.certificate)["subject"]
            except ssl.SSLError:
                return False
            return subject == ((("commonName", "renewed"),),)

        wait_until(is_renewed, 40, what="the new certificate")
        assert sidecar.terminate() == 0
