"""Asking an admin door, and what each failure means to a person."""

import json
import socket
import threading

import pytest

from halfhitch.config import Purpose, load
from halfhitch.errors import BackendError, ConfigurationError, OutcomeUnknown, RequestError
from halfhitch_cli import client as client_module
from halfhitch_cli.app import main
from halfhitch_cli.client import AdminClient, Refusal, path_of
from harness.scripted_admin import STATUS, TOKEN, Door

Capture = pytest.CaptureFixture[str]


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


@pytest.mark.parametrize("host", ["10.1.2.3", "sidecar.shop.svc", "localhost.evil.example", "::2"])
def test_a_token_does_not_go_to_another_machine_in_clear(host: str) -> None:
    given = {"admin.host": host, "auth.tokens": TOKEN}
    with pytest.raises(ConfigurationError, match="client-encrypted-in-front") as raised:
        AdminClient.of(load(given, purpose=Purpose.CLIENT))
    assert host in raised.value.message
    assert TOKEN not in raised.value.message
    for way in (
        {"client.encrypted_in_front": True},
        {"admin.encrypted_in_front": True},
        {"client.tls": True},
    ):
        AdminClient.of(load({**given, **way}, purpose=Purpose.CLIENT))
    AdminClient.of(load({"admin.host": host}, purpose=Purpose.CLIENT))  # nothing to be read


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "127.0.0.2", "[::1]", "LOCALHOST"])
def test_a_token_goes_to_this_machine_as_ever(host: str) -> None:
    AdminClient.of(load({"admin.host": host, "auth.tokens": TOKEN}, purpose=Purpose.CLIENT))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_takes_the_token_nowhere(door: Door, status: int) -> None:
    door.say("/v1/status", status, STATUS)
    door.location = f"http://127.0.0.1:{door.port}/v1/elsewhere"
    door.say("/v1/elsewhere", 200, STATUS)
    settings = load({"admin.port": door.port, "auth.tokens": TOKEN}, purpose=Purpose.CLIENT)
    assert AdminClient.of(settings).get("/v1/status")[0] == status
    assert door.tokens == [TOKEN]


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


def test_a_post_carries_json_and_its_refusal_keeps_the_reason(door: Door) -> None:
    path = path_of("transactions", "a/b", "T 1?", "commit")
    assert path == "/v1/transactions/a%2Fb/T%201%3F/commit"
    door.say(path, 409, {"error": {"code": "contrary_decision", "message": "it is rolled back"}})
    client = AdminClient("127.0.0.1", door.port, TOKEN)
    with pytest.raises(Refusal, match="it is rolled back") as raised:
        client.post(path, {"reason": "why"})
    assert (raised.value.status, raised.value.reason) == (409, "it is rolled back")
    door.say(path, 200, {"state": "committed"})
    assert client.post(path, {"reason": "why"}) == {"state": "committed"}
    assert door.tokens == [TOKEN, TOKEN]
    assert door.bodies == [("application/json", {"reason": "why"})] * 2


def test_filters_that_were_not_given_are_not_sent(door: Door) -> None:
    door.say("/v1/parked?group=a+b&limit=5", 200, {"transactions": []})
    client = AdminClient("127.0.0.1", door.port)
    assert client.find("/v1/parked", {"group": "a b", "topic": None, "limit": 5}) == {
        "transactions": []
    }


def test_no_answer_to_a_post_is_unknown_and_no_answer_to_a_get_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]

        def hang_up() -> None:
            for _ in range(2):
                connection, _address = deaf.accept()
                connection.recv(10_000)
                connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        client = AdminClient("127.0.0.1", port)
        with pytest.raises(OutcomeUnknown, match="to repeat is safe"):
            client.post("/v1/parked/g/T1/resume", {})
        with pytest.raises(BackendError, match="gave no HTTP answer") as raised:
            client.get("/v1/status")
        assert not isinstance(raised.value, OutcomeUnknown)
        thread.join(10)
    with pytest.raises(BackendError, match="halfhitch serve") as raised:
        client.post("/v1/parked/g/T1/resume", {})
    assert not isinstance(raised.value, OutcomeUnknown)


def test_an_answer_of_any_size_is_not_taken(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_BODY_BYTES_MAX", 10)
    door.say("/v1/parked", 200, ["x" * 20])
    with pytest.raises(BackendError, match="--limit"):
        AdminClient("127.0.0.1", door.port).get("/v1/parked")


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
