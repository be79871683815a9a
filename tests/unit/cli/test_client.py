"""Asking an admin door, and what each failure means to a person."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from halfhitch.config import Purpose, load
from halfhitch.errors import BackendError, RequestError
from halfhitch_cli.app import main
from halfhitch_cli.client import AdminClient

Capture = pytest.CaptureFixture[str]
TOKEN = "t" * 16
PARTITION = {
    "partition": 2, "phase": "working", "pending_count": 7, "decided_count": 0, "early_count": 0,
    "finished_count": 5, "half_watermark": 10, "half_position": 12, "op_watermark": 20,
    "op_position": 25, "trouble": None,
}  # fmt: skip
STATUS = {
    "ready": True, "reasons": [], "info": {"instance": "shop-1", "uptime_s": 1.25, "owner": True},
    "partitions": [PARTITION],
}  # fmt: skip


class Door:
    """A scripted admin door: answers by path."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.tokens: list[str | None] = []
        door = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                door.tokens.append(self.headers.get("Half-Token"))
                status, body = door.answers.get(self.path, (404, b"{}"))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port: int = self.server.server_address[1]

    def say(self, path: str, status: int, answer: object) -> None:
        self.answers[path] = (status, json.dumps(answer).encode() if answer is not None else b"")


@pytest.fixture
def door() -> Iterator[Door]:
    door = Door()
    thread = threading.Thread(target=door.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield door
    door.server.shutdown()
    door.server.server_close()
    thread.join(10)


def test_the_client_sends_the_token_and_reads_the_answer(door: Door) -> None:
    door.say("/v1/status", 200, STATUS)
    settings = load(
        {"admin.port": door.port, "auth.tokens": [TOKEN, "u" * 16]}, purpose=Purpose.CLIENT
    )
    assert AdminClient.of(settings).get("/v1/status") == (200, STATUS)
    assert door.tokens == [TOKEN]


def test_a_door_bound_to_every_address_is_asked_on_loopback() -> None:
    settings = load({"admin.host": "0.0.0.0", "admin.port": 5}, purpose=Purpose.CLIENT)
    assert AdminClient.of(settings).address == "http://127.0.0.1:5"
    assert AdminClient("::", 5).address == "http://[::1]:5"


def test_readiness_is_an_answer_and_not_an_error(door: Door) -> None:
    door.say("/readyz", 503, {"ready": False, "reasons": ["why"]})
    assert AdminClient("127.0.0.1", door.port).get("/readyz")[0] == 503
    door.say("/readyz", 204, None)
    assert AdminClient("127.0.0.1", door.port).get("/readyz") == (204, None)


def refused(door: Door, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        AdminClient("127.0.0.1", door.port).get("/v1/status")


def test_each_failure_says_what_to_do(door: Door) -> None:
    door.say("/v1/status", 401, {"error": {"code": "unauthorized"}})
    refused(door, RequestError, "HALFHITCH_AUTH_TOKENS")
    door.say("/v1/status", 500, {"error": {"message": "our fault"}})
    refused(door, RequestError, "answers 500 .* our fault")
    door.say("/v1/status", 404, ["no object"])
    refused(door, RequestError, "answers 404")
    door.answers["/v1/status"] = (200, b"<html>")
    refused(door, BackendError, "no sidecar's admin door")
    with pytest.raises(BackendError, match="halfhitch serve"):
        AdminClient("127.0.0.1", 1).get("/v1/status")


Status = Callable[..., tuple[int, str, str]]


@pytest.fixture
def status(door: Door, capsys: Capture) -> Status:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["status", "--admin-port", str(door.port), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_status_shows_a_ready_sidecar_and_its_partitions(door: Door, status: Status) -> None:
    door.say("/v1/status", 200, STATUS)
    code, out, err = status()
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert ["state", "ready"] in rows
    assert ["uptime_s", "1.2"] in rows
    assert ["owner", "yes"] in rows
    assert ["2", "working", "7", "0", "0", "2", "5"] in rows
    code, out, _ = status("-o", "json")
    assert json.loads(out) == STATUS


def test_status_of_a_sidecar_that_is_not_ready_is_3_with_the_reasons(
    door: Door, status: Status
) -> None:
    door.say(
        "/v1/status", 200, {**STATUS, "ready": False, "reasons": ["no Kafka"], "partitions": []}
    )
    code, out, _ = status()
    assert code == 3
    assert "not ready" in out
    assert "no Kafka" in out
    assert "Half partition" not in out


def test_status_without_a_sidecar_is_1_with_the_next_step(capsys: Capture) -> None:
    assert main(["status", "--admin-port", "1"]) == 1
    assert "halfhitch serve" in capsys.readouterr().err


def test_doctor_shows_every_row_though_nothing_answers(capsys: Capture, door: Door) -> None:
    door.say("/readyz", 503, {"ready": False, "reasons": ["no Kafka"]})
    arguments = [
        *("doctor", "--kafka-bootstrap", "127.0.0.1:1", "--wait-s", "0.5", "-o", "json"),
        *("--redis-url", "redis://:a-password@127.0.0.1:1/0", "--admin-port", str(door.port)),
    ]
    assert main(arguments) == 3
    out = capsys.readouterr().out
    answer = json.loads(out)
    assert answer["healthy"] is False
    rows = {row["check"]: row for row in answer["findings"]}
    assert rows["settings"]["severity"] == "warn"
    assert "handle.key" in rows["settings"]["sentence"]
    assert rows["Kafka"]["severity"] == "fail"
    assert "refused" in rows["Kafka"]["sentence"]
    assert rows["Redis"]["severity"] == "fail"
    assert "a-password" not in out
    assert rows["sidecar"]["severity"] == "fail"
    assert "no Kafka" in rows["sidecar"]["sentence"]
    assert all(row["remedy"] for row in rows.values())


def test_doctor_tells_of_settings_that_cannot_be_read(capsys: Capture) -> None:
    assert main(["doctor", "--http-port", "x", "-o", "json"]) == 3
    (row,) = json.loads(capsys.readouterr().out)["findings"]
    assert row["check"] == "settings"
    assert "http.port" in row["sentence"]
