"""The admin door over a real socket: probes for everybody, the rest for those with a token."""

import asyncio
import errno
import http.client
import json
import logging
import signal
import socket
from typing import Any

import pytest

from halfhitch.doors.admin import AdminDoor
from halfhitch.errors import ConfigurationError
from halfhitch.observability.metrics import Metrics
from harness.admin_doors import NEXT_TOKEN, TOKEN, FakeSystem, opened
from harness.identities import access_with

PROTECTED = ("/metrics", "/v1/status", "/v1/partitions", "/v1/config")


def error_of(body: bytes) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(body)["error"]
    assert set(error) == {"code", "message", "retryable"}
    return error


async def test_everything_but_the_probes_needs_a_token() -> None:
    async with opened(FakeSystem(), tokens=[TOKEN, NEXT_TOKEN]) as ask:
        for path in ("/livez", "/readyz"):
            assert (await ask(path))[0] == 204
        for path in (*PROTECTED, "/nothing", "/v1/", "/openapi.json", "/docs"):
            for headers in ({}, {"Half_Token": "wrong"}, {"Half_Token": ""}):
                status, answered, body = await ask(path, **headers)
                assert status == 401, path
                assert error_of(body)["code"] == "unauthorized"
                assert error_of(body)["retryable"] is False
                assert "Half-Token" in answered["www-authenticate"]
        for path in PROTECTED:
            for token in (TOKEN, NEXT_TOKEN):
                assert (await ask(path, Half_Token=token))[0] == 200
                assert (await ask(path, Authorization=f"Bearer {token}"))[0] == 200
            assert (await ask(path, Authorization=f"Basic {TOKEN}"))[0] == 401
            # A wrong token of one kind is not mended by the other kind.
            wrong = {"Half_Token": "x", "Authorization": f"Bearer {TOKEN}"}
            assert (await ask(path, **wrong))[0] == 401


@pytest.mark.parametrize(
    "path",
    [
        "//livez",
        "/livez/",
        "/livez/../v1/config",
        "/v1/config/livez",
        "/v1/config?/livez",
        "/v1/config#/livez",
        "/v1/config;/livez",
        "/%6civez/../v1/config",
        "/LIVEZ",
        "/readyz%2f..%2fmetrics",
    ],
)
async def test_no_spelling_of_a_path_slips_past_the_guard(path: str) -> None:
    async with opened(FakeSystem(), tokens=[TOKEN]) as ask:
        status, _, body = await ask(path)
        assert status == 401
        assert b"8340" not in body


async def test_a_method_other_than_get_on_a_probe_needs_a_token_too() -> None:
    async with opened(FakeSystem(), tokens=[TOKEN]) as ask:
        assert (await ask("/livez", "POST"))[0] == 401
        status, headers, body = await ask("/livez", "POST", Half_Token=TOKEN)
        assert status == 405
        assert headers["allow"] == "GET, HEAD, OPTIONS"
        assert error_of(body)["code"] == "method_not_allowed"


async def test_a_token_sent_twice_is_refused_whichever_is_right() -> None:
    async with opened(FakeSystem(), tokens=[TOKEN]) as ask:
        pairs = [("Half-Token", TOKEN), ("Half-Token", "wrong")]
        for order, refusal in (
            (pairs, (401, "unauthorized")),
            (pairs[::-1], (400, "malformed_request")),
        ):
            status, _, body = await ask("/v1/status", "GET", *order)
            assert (status, error_of(body)["code"]) == refusal


async def test_a_path_is_not_guessed_at() -> None:
    async with opened(FakeSystem()) as ask:
        assert (await ask("/v1/status/"))[0] == 404
        assert (await ask("//v1/status"))[0] == 404


async def test_queries_that_monitoring_adds_are_passed_over() -> None:
    async with opened(FakeSystem()) as ask:
        assert (await ask("/livez?verbose"))[0] == 204
        assert (await ask("/readyz?timeout=1s&"))[0] == 204
        assert (await ask("/metrics?name[]=up"))[0] == 200


async def test_unknown_routes_say_which_there_are() -> None:
    async with opened(FakeSystem()) as ask:
        status, _, body = await ask("/v2/status")
        assert status == 404
        assert error_of(body)["code"] == "route_not_found"
        assert "/v1/status" in error_of(body)["message"]


async def test_an_application_at_the_admin_door_was_not_told_that_there_is_another() -> None:
    async with opened(FakeSystem()) as ask:
        status, _, body = await ask("/v1/transactions/handle/commit/more")
        assert status == 404
        assert "applications go to the data door" in error_of(body)["message"]
        status, _, body = await ask("/v1/status", "POST")
        assert status == 405
        assert "applications go to the data door" in error_of(body)["message"]


async def test_pages_in_a_browser_get_nothing() -> None:
    async with opened(FakeSystem(), allowed_hosts=["halfhitch.shop.svc"]) as ask:
        status, _, body = await ask("/v1/status", Origin="http://evil.example")
        assert (status, error_of(body)["code"]) == (403, "origin_not_allowed")
        status, _, body = await ask("/v1/status", Sec_Fetch_Site="cross-site")
        assert (status, error_of(body)["code"]) == (403, "origin_not_allowed")
        assert (await ask("/v1/status", Sec_Fetch_Site="none"))[0] == 200
        status, _, body = await ask("/v1/status", Host="evil.example")
        assert (status, error_of(body)["code"]) == (403, "host_not_allowed")
        for host in ("localhost", "127.0.0.1:9", "[::1]", "halfhitch.shop.svc:8341"):
            assert (await ask("/v1/status", Host=host))[0] == 200
        # A kubelet probes by the pod's address.
        assert (await ask("/livez", Host="10.1.2.3:8341"))[0] == 204


async def test_a_page_of_this_door_itself_may_ask_and_another_one_may_not() -> None:
    async with opened(FakeSystem(), allowed_hosts=["halfhitch.shop.svc"]) as ask:
        own = {"Host": "localhost:8341", "Sec_Fetch_Site": "same-origin"}
        for origin in ("http://localhost:8341", "https://localhost:8341", "HTTP://LOCALHOST:8341"):
            assert (await ask("/v1/status", Origin=origin, **own))[0] == 200
        for origin in (
            *("http://localhost:8340", "http://localhost", "null", "", "http://", "localhost:8341"),
            *("http://evil.example", "file://localhost:8341", "http://localhost:8341/", "*"),
            *("http://evil@localhost:8341", "http://localhost:8341.evil.example"),
        ):
            status, _, body = await ask("/v1/status", Origin=origin, **own)
            assert (status, error_of(body)["code"]) == (403, "origin_not_allowed"), origin
        # A name that was pointed here (DNS rebinding) is the same to the browser, and none of ours.
        rebound = {"Host": "evil.example", "Origin": "http://evil.example"}
        status, _, body = await ask("/v1/status", Sec_Fetch_Site="same-origin", **rebound)
        assert (status, error_of(body)["code"]) == (403, "host_not_allowed")
        status, _, _ = await ask(
            "/v1/status", Origin="http://localhost:8341", Host="localhost:8341"
        )
        assert status == 200  # beyond loopback without encryption browsers say nothing of sites
        wrong = {"Sec_Fetch_Site": "same-site", "Origin": "http://localhost:8341"}
        assert (await ask("/v1/status", Host="localhost:8341", **wrong))[0] == 403


async def test_beyond_loopback_a_page_has_nothing_but_its_token() -> None:
    own = {"Host": "10.1.2.3:8341", "Origin": "http://10.1.2.3:8341"}
    async with opened(FakeSystem(), host="0.0.0.0", tokens=[TOKEN]) as ask:
        assert (await ask("/v1/status", **own))[0] == 401
        assert (await ask("/v1/status", Half_Token=TOKEN, **own))[0] == 200
    async with opened(FakeSystem(), host="0.0.0.0") as ask:  # no setting allows this
        assert (await ask("/v1/status", **own))[0] == 403


async def test_behind_a_token_any_host_may_be_named_beyond_loopback() -> None:
    async with opened(FakeSystem(), host="0.0.0.0", tokens=[TOKEN]) as ask:
        assert (await ask("/metrics", Host="10.1.2.3:8341", Half_Token=TOKEN))[0] == 200


@pytest.mark.parametrize("path", ["/v1/partitions", "/readyz"])
async def test_a_failure_of_ours_is_logged_and_told_without_details(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    system = FakeSystem()
    system.trouble = RuntimeError("a detail nobody should see")
    with caplog.at_level(logging.ERROR):
        async with opened(system) as ask:
            status, headers, body = await ask(path)
    assert (status, headers.get("connection")) == (500, None)
    assert error_of(body)["code"] == "internal_error"
    assert b"detail" not in body
    assert any("a detail nobody should see" in str(r.exc_info) for r in caplog.records)


async def test_a_port_in_use_is_told_with_the_setting() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        door = AdminDoor(FakeSystem(), Metrics(), (), "127.0.0.1", port, access=access_with())
        with pytest.raises(ConfigurationError, match=f"admin.port {port}.*in use"):
            await door.start()
    with pytest.raises(ConfigurationError, match=r"admin\.host"):
        await AdminDoor(
            FakeSystem(), Metrics(), (), "no.such.host.invalid", 0, access=access_with()
        ).start()


async def test_a_port_that_somebody_takes_between_binding_and_listening_is_told_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def taken(*_: object) -> None:
        raise OSError(errno.EADDRINUSE, "Address already in use")

    door = AdminDoor(FakeSystem(), Metrics(), (), "127.0.0.1", 0, access=access_with())
    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "listen", taken)
        with pytest.raises(ConfigurationError, match=r"admin\.port.*in use"):
            await door.start()
    await door.start()
    await door.stop()


async def test_starting_and_stopping_leaves_signals_and_the_port_as_they_were() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    door = AdminDoor(FakeSystem(), Metrics(), (), "127.0.0.1", 0, access=access_with())
    await door.stop()
    await door.start()
    connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=10)
    await asyncio.to_thread(connection.request, "GET", "/livez")
    assert (await asyncio.to_thread(connection.getresponse)).status == 204
    connection.close()
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before
    port = door.port
    assert port > 0
    await door.stop()
    await door.stop()
    again = AdminDoor(FakeSystem(), Metrics(), (), "127.0.0.1", port, access=access_with())
    await again.start()
    await again.stop()
