"""The console's files, for everybody, with headers that let no other script run; and /v1/me."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.doors.admin import AdminDoor
from halfhitch.doors.admin.console import CONSOLE
from halfhitch.observability.metrics import Metrics
from harness.admin_door import QuietSystem
from harness.admin_doors import TOKEN, FakeSystem, opened
from harness.identities import KEEPER, ROOT, SHOP, WATCHER, access

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PAGES = files("halfhitch.doors.admin").joinpath("pages")
FILES = [route.pattern for route in CONSOLE if route.pattern.startswith("/console")]


@pytest.mark.parametrize("path", FILES)
async def test_the_files_are_served_to_everybody_with_a_policy_that_lets_no_other_script_run(
    path: str,
) -> None:
    async with opened(FakeSystem(), tokens=[TOKEN]) as ask:
        # A link in a chat or on a dashboard leads here from another site.
        status, headers, body = await ask(path, Sec_Fetch_Site="cross-site")
    assert status == 200
    policy = dict(
        part.partition(" ")[::2] for part in headers["content-security-policy"].split("; ")
    )
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert "set-cookie" not in headers
    kinds = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    assert headers["content-type"].startswith(kinds.get(path.rpartition(".")[2], "text/html"))
    name = path.rpartition("/")[2] if "." in path else "console.html"
    assert body == PAGES.joinpath(name).read_bytes()


async def test_whoever_opens_the_door_in_a_browser_is_led_to_the_console() -> None:
    async with opened(FakeSystem(), tokens=[TOKEN]) as ask:
        status, headers, _ = await ask("/")
        assert (status, headers["location"]) == (303, "console")  # relative: a proxy's prefix stays
        assert (await ask("/", "POST"))[0] == 401


async def test_head_tells_the_size_alone() -> None:
    async with opened(FakeSystem()) as ask:
        status, headers, body = await ask("/console", "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) == len(PAGES.joinpath("console.html").read_bytes())


@pytest.mark.parametrize(
    "path",
    [
        "/console/",
        "/console/../v1/status",
        "/console/..%2fv1%2fstatus",
        "/console/%2e%2e/door.py",
        "/console/..%5cdoor.py",
        "/console/console.py",
        "/console/console.html",
        "/console/main.js/",
        "/console/main.js%00",
        "/console//etc/passwd",
        "/CONSOLE",
        "/%63onsole/../v1/status",
        "/console;/v1/status",
        "/v1/me",
    ],
)
async def test_no_trick_with_a_path_reads_another_file_or_slips_past_the_guard(path: str) -> None:
    async with opened(FakeSystem(), tokens=[TOKEN]) as ask:
        assert (await ask(path))[0] == 401
        if path != "/v1/me":
            assert (await ask(path, Half_Token=TOKEN))[0] == 404


def test_every_file_is_served_and_nothing_in_them_comes_from_elsewhere() -> None:
    served = {path.rpartition("/")[2] for path in FILES} - {"console"} | {"console.html"}
    assert served == {file.name for file in PAGES.iterdir()}
    for file in PAGES.iterdir():
        text = file.read_text()
        outside = re.findall(r"(?:https?:)?//[\w.]+\.\w+[^\s\"']*", re.sub(r"^\s*//.*", "", text))
        assert set(outside) <= {"http://www.w3.org/2000/svg"}, file.name
        assert not re.search(r"\.(?:inner|outer)HTML|insertAdjacentHTML|document\.write", text)
        assert not re.search(r"\beval\(|new Function|\.cookie|localStorage", text)
    page = PAGES.joinpath("console.html").read_text()
    assert not re.search(r"<style|\son\w+=|\sstyle=|javascript:", page)
    assert re.findall(r"<script[^>]*>([^<]*)<", page) == [""]


@pytest.mark.parametrize("name", [file.name for file in PAGES.iterdir()])
def test_the_files_are_small_enough_to_be_read(name: str) -> None:
    text = PAGES.joinpath(name).read_text()
    assert len(text.splitlines()) <= 300
    assert text.endswith("\n")


@asynccontextmanager
async def identified() -> AsyncIterator[Any]:
    door = AdminDoor(QuietSystem(), Metrics(), (), "127.0.0.1", 0, access=access())
    await door.start()

    def ask(path: str, token: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=10)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    try:
        yield lambda path, token: asyncio.to_thread(ask, path, token)
    finally:
        await door.stop()


async def test_who_asks_is_told_who_he_is_and_where_he_may_operate() -> None:
    async with identified() as ask:
        status, me = await ask("/v1/me?group=shop&group=bank", KEEPER)
        assert status == 200
        assert (me["name"], me["rights"]) == ("keeper", ["observe", "operate"])
        assert me["may_operate"] == {"shop": True, "bank": False}
        _, me = await ask("/v1/me?group=shop", WATCHER)
        assert (me["rights"], me["sees_all"]) == (["observe"], True)
        assert me["may_operate"] == {"shop": False}
        _, me = await ask("/v1/me?group=shop", SHOP)
        assert me["may_operate"] == {"shop": False}
        _, me = await ask("/v1/me?group=any%2Fthing", ROOT)
        assert me["may_operate"] == {"any/thing": True}
        assert (await ask("/v1/me", "nobody"))[0] == 401


@pytest.mark.parametrize(
    "query", ["groups=shop", "group=%ff", "&".join(["group=g"] * 101), "group=a&id=b"]
)
async def test_a_question_about_oneself_that_is_not_understood_is_refused(query: str) -> None:
    async with identified() as ask:
        status, answer = await ask(f"/v1/me?{query}", ROOT)
    assert (status, answer["error"]["code"]) == (400, "invalid_request")


async def test_without_tokens_everybody_may_everything() -> None:
    async with opened(FakeSystem()) as ask:
        _, _, body = await ask("/v1/me?group=shop")
    me = json.loads(body)
    assert me["name"] is None
    assert "operate" in me["rights"]
    assert me["may_operate"] == {"shop": True}
