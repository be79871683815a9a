"""Who may do what on the admin door, and under which name."""

from __future__ import annotations

import asyncio
import http.client
import json
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.doors.admin import AdminDoor
from halfhitch.doors.admin.console import CONSOLE
from halfhitch.doors.admin.operations import OPERATED
from halfhitch.doors.admin.routes import SHOWN
from halfhitch.observability.metrics import Metrics
from halfhitch.service.api import PartitionPhase, PartitionState
from harness.admin_door import QuietSystem
from harness.fake_operations import FakeOperations, parked, undecided
from harness.identities import BANK, KEEPER, ROOT, SHOP, WATCHER, access

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ORDER = {"reason": "asked the shop", "operator": "ceo@example.com"}
ALL = (BANK, KEEPER, WATCHER, SHOP, ROOT)
#: Route -> method and path, and who is let through. Everything is about group shop.
ROUTES: dict[str, tuple[str, str, set[str]]] = {
    "metrics": ("GET", "/metrics", {WATCHER, ROOT}),
    "status": ("GET", "/v1/status", {KEEPER, WATCHER, ROOT}),
    "partitions": ("GET", "/v1/partitions", {KEEPER, WATCHER, ROOT}),
    "producers": ("GET", "/v1/producers", {KEEPER, WATCHER, ROOT}),
    "config": ("GET", "/v1/config", {ROOT}),
    "me": ("GET", "/v1/me?group=shop", {*ALL}),
    "openapi": ("GET", "/v1/openapi.yaml", {*ALL}),
    "undecided": ("GET", "/v1/transactions", {KEEPER, WATCHER, ROOT}),
    "names": ("GET", "/v1/names", {KEEPER, WATCHER, ROOT}),
    "commit_many": ("POST", "/v1/many/commit", {KEEPER, ROOT}),
    "rollback_many": ("POST", "/v1/many/rollback", {KEEPER, ROOT}),
    "check_many": ("POST", "/v1/many/check", {KEEPER, ROOT}),
    "parked": ("GET", "/v1/parked", {KEEPER, WATCHER, ROOT}),
    "parked_one": ("GET", "/v1/parked/shop/P1", {KEEPER, ROOT}),
    "commit": ("POST", "/v1/transactions/shop/T1/commit", {KEEPER, ROOT}),
    "rollback": ("POST", "/v1/transactions/shop/T1/rollback", {KEEPER, ROOT}),
    "check": ("POST", "/v1/transactions/shop/T1/check", {KEEPER, ROOT}),
    "resume": ("POST", "/v1/parked/shop/P1/resume", {KEEPER, ROOT}),
}
OPEN = {route.name for route in (*SHOWN, *OPERATED, *CONSOLE) if route.is_open}


class BusySystem(QuietSystem):
    def partitions(self) -> list[Any]:
        state = PartitionState(2, PartitionPhase.WORKING, 3, 0, 0, 5, 10, 12, 20, 25, None)
        state.pending_by_group = {"shop": 1, "bank": 2}
        state.waiting_by_topic = {"orders": 4, "payments": 5}
        state.trouble = "payments is away"
        state.troubles = ["payments is away", "group bank stands"]
        return [state]


@asynccontextmanager
async def opened(
    operations: FakeOperations, system: QuietSystem | None = None
) -> AsyncIterator[Any]:
    door = AdminDoor(
        system or BusySystem(),
        Metrics(),
        (),
        "127.0.0.1",
        0,
        access=access(),
        operations=operations,
    )
    await door.start()

    def ask(method: str, path: str, token: str | None, body: Any) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=10)
        headers = {} if token is None else {"Half-Token": token}
        raw = None
        if method == "POST":
            headers["Content-Type"] = "application/json"
            raw = json.dumps(ORDER if body is None else body).encode()
        try:
            connection.request(method, path, raw, headers)
            response = connection.getresponse()
            content = response.read()
            is_json = response.getheader("Content-Type") == "application/json"
            return response.status, json.loads(content) if is_json else content
        finally:
            connection.close()

    async def asked(
        path: str, token: str | None, body: Any = None, *, method: str | None = None
    ) -> tuple[int, Any]:
        return await asyncio.to_thread(
            ask, method or ("GET" if body is None else "POST"), path, token, body
        )

    try:
        yield asked
    finally:
        await door.stop()


def stocked() -> FakeOperations:
    return FakeOperations(
        [undecided("T1"), undecided("T2", "bank")], [parked("P1"), parked("P2", "bank")]
    )


def test_every_route_is_asked_for() -> None:
    every = (*SHOWN, *OPERATED, *CONSOLE)
    assert set(ROUTES) == {route.name for route in every if not route.is_open}
    assert {name for name in OPEN if not name.startswith("console")} == {"livez", "readyz"}


def body_of(path: str) -> Any:
    """One that names somebody, where the path does not."""
    return {**ORDER, "transactions": {"shop": ["T1"]}} if path.startswith("/v1/many") else None


async def test_one_group_without_the_right_refuses_all_of_many() -> None:
    operations = stocked()
    body = {**ORDER, "transactions": {"shop": ["T1"], "bank": ["T2"]}}
    async with opened(operations) as ask:
        status, _ = await ask("/v1/many/commit", KEEPER, body)
    assert (status, operations.calls) == (403, [])


@pytest.mark.parametrize("route", sorted(ROUTES))
async def test_who_has_the_right_is_let_through_and_nobody_else(route: str) -> None:
    method, path, allowed = ROUTES[route]
    for token in ALL:
        operations = stocked()
        async with opened(operations) as ask:
            status, answer = await ask(path, token, body_of(path), method=method)
        if token in allowed:
            assert status < 300, (token, answer)
        else:
            assert (status, answer["error"]["code"]) == (403, "forbidden"), token
            assert operations.calls == [], "nothing was looked up or changed"


async def test_without_a_token_nothing_is_open_but_the_probes() -> None:
    async with opened(stocked()) as ask:
        for method, path, _ in ROUTES.values():
            assert (await ask(path, None, method=method))[0] == 401
            assert (await ask(path, "guess", method=method))[0] == 401
        for path in ("/livez", "/readyz"):
            assert (await ask(path, None))[0] == 204


@pytest.mark.parametrize("path", ["/v1/transactions", "/v1/parked"])
async def test_lists_leave_out_what_others_have(path: str) -> None:
    async with opened(stocked()) as ask:
        _, keepers = await ask(path, KEEPER)
        _, watchers = await ask(path, WATCHER)
        refused, said = await ask(f"{path}?group=bank", KEEPER)
        allowed, _ = await ask(f"{path}?group=shop", KEEPER)
    assert (keepers["total_count"], watchers["total_count"]) == (1, 2)
    assert [shown["producer_group"] for shown in keepers["transactions"]] == ["shop"]
    assert (refused, said["error"]["code"], allowed) == (403, "forbidden", 200)


class EverythingNamed(QuietSystem):
    """Each table of a partition names a stranger, those that are added later as well."""

    def partitions(self) -> list[Any]:
        state = PartitionState(2, PartitionPhase.WORKING, 3, 0, 0, 5, 10, 12, 20, 25, None)
        for field in fields(state):
            if isinstance(getattr(state, field.name), dict):
                setattr(state, field.name, {"stranger": 1, "shop": 1})
        return [state]


async def test_the_ages_of_other_groups_were_told_by_name() -> None:
    async with opened(FakeOperations(), EverythingNamed()) as ask:
        for path in ("/v1/status", "/v1/partitions"):
            _, keepers = await ask(path, KEEPER)
            assert "stranger" not in json.dumps(keepers)
            assert keepers["partitions"][0]["oldest_age_by_group"] == {"shop": 1}
            _, watchers = await ask(path, WATCHER)
            assert watchers["partitions"][0]["oldest_age_by_group"] == {"shop": 1, "stranger": 1}


async def test_the_state_leaves_out_groups_and_topics_of_others() -> None:
    async with opened(stocked()) as ask:
        _, keepers = await ask("/v1/status", KEEPER)
        _, watchers = await ask("/v1/partitions", WATCHER)
    [seen], [all_of_it] = keepers["partitions"], watchers["partitions"]
    assert (seen["pending_by_group"], seen["waiting_by_topic"]) == ({"shop": 1}, {})
    assert all_of_it["pending_by_group"] == {"shop": 1, "bank": 2}
    assert all_of_it["waiting_by_topic"] == {"orders": 4, "payments": 5}


@pytest.mark.parametrize(
    ("path", "done"),
    [
        ("/v1/transactions/shop/T1/commit", "commit"),
        ("/v1/transactions/shop/T1/rollback", "rollback"),
        ("/v1/parked/shop/P1/resume", "resume"),
    ],
)
async def test_an_operator_is_who_his_token_says_and_not_who_he_says(path: str, done: str) -> None:
    """Any application could sign as anybody, and the op log kept it."""
    operations = stocked()
    async with opened(operations) as ask:
        assert (await ask(path, KEEPER, ORDER))[0] == 200
    [(name, _, _, reason, operator)] = operations.done()
    assert (name, operator) == (done, "keeper")
    assert reason == "asked the shop (signed ceo@example.com)"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"reason": "why"}, "why"),
        ({"reason": "why", "operator": ""}, "why"),
        ({"reason": "why", "operator": "keeper"}, "why"),
        ({"reason": "why", "operator": "a\x1b[2Jb"}, "why (signed a [2Jb)"),
        ({"reason": "w" * 195, "operator": "ann"}, "w" * 195),
        ({"operator": "ann"}, ""),
    ],
)
async def test_what_he_says_is_a_remark_where_it_fits(body: dict[str, str], reason: str) -> None:
    operations = stocked()
    async with opened(operations) as ask:
        await ask("/v1/transactions/shop/T1/commit", KEEPER, body)
    [call] = operations.done()
    assert call[3:] == (reason, "keeper")


async def test_who_asked_for_a_check_stands_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with opened(stocked()) as ask:
        assert (await ask("/v1/transactions/shop/T1/check", KEEPER, ORDER))[0] == 202
    assert "keeper asked for a check of transaction T1 of group shop" in caplog.messages


TROUBLES = ["100 transactions of group bank", "topic payments is away"]


async def test_reasons_with_names_are_for_those_who_may_observe_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The probe asks for no token, and named groups and topics of other teams."""
    monkeypatch.setattr(BusySystem, "degraded_reasons", lambda _: TROUBLES)
    monkeypatch.setattr(BusySystem, "unready_reasons", lambda _: ["group bank has filled it up"])
    async with opened(stocked()) as ask:
        status, probed = await ask("/readyz", None)
        assert (status, probed["ready"], len(probed["reasons"])) == (503, False, 1)
        seen = [probed, (await ask("/v1/status", KEEPER))[1]]
        seen.append((await ask("/v1/partitions", KEEPER))[1])
        for told in seen:
            assert "bank" not in json.dumps(told)
            assert "payments" not in json.dumps(told)
        assert (len(seen[1]["reasons"]), len(seen[1]["degraded"])) == (1, 2)
        assert len(seen[2]["partitions"][0]["troubles"]) == 2
        _, everything = await ask("/v1/status", WATCHER)
        assert everything["reasons"] == ["group bank has filled it up"]
        assert everything["degraded"][1] == "topic payments is away"
        assert everything["partitions"][0]["troubles"][1] == "group bank stands"


async def test_the_probe_tells_no_names_while_it_is_ready_but_degraded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(BusySystem, "degraded_reasons", lambda _: TROUBLES)
    async with opened(stocked()) as ask:
        status, probed = await ask("/readyz", None)
        assert (status, probed["ready"], len(probed["degraded"])) == (200, True, 2)
        assert "bank" not in json.dumps(probed)
