"""The admin door's routes for operators: filters in, JSON out, nothing changed by accident."""

from __future__ import annotations

import asyncio
import http.client
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.doors.admin import AdminDoor
from halfhitch.errors import (
    ContraryDecision,
    InvariantViolation,
    OutcomeUnknown,
    RedisUnavailable,
    TransactionNotFound,
    TransactionParked,
)
from halfhitch.observability.metrics import Metrics
from halfhitch.service.api import Filter, ParkedMessage
from harness.fake_operations import FakeOperations, parked, undecided
from harness.identities import access_with

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TOKEN = "t" * 16
ORDER = {"reason": "asked the shop", "operator": "ann"}
JSON = {"Content-Type": "application/json"}


class NoSystem:
    def degraded_reasons(self) -> list[str]:
        return []

    def unready_reasons(self) -> list[str]:
        return []

    def partitions(self) -> list[Any]:
        return []

    def producers(self) -> list[Any]:
        return []

    def info(self) -> dict[str, Any]:
        return {}


@asynccontextmanager
async def opened(operations: FakeOperations | None, *tokens: str) -> AsyncIterator[Any]:
    door = AdminDoor(
        NoSystem(), Metrics(), (), "127.0.0.1", 0,
        access=access_with(*tokens), operations=operations,
    )  # fmt: skip
    await door.start()

    def ask(method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=10)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    async def asked(
        path: str, body: Any = None, *, method: str | None = None, headers: Any = None
    ) -> tuple[int, Any]:
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        method = method or ("GET" if raw is None else "POST")
        given = {**(JSON if raw is not None else {}), **(headers or {})}
        status, _, answer = await asyncio.to_thread(ask, method, path, raw, given)
        return status, json.loads(answer) if answer else None

    try:
        yield asked
    finally:
        await door.stop()


def code(answer: Any) -> str:
    assert set(answer) == {"error"}
    return str(answer["error"]["code"])


async def test_undecided_transactions_are_listed() -> None:
    operations = FakeOperations([undecided("T1"), undecided("T2")], missing_partitions=[3])
    async with opened(operations) as ask:
        status, answer = await ask("/v1/transactions?limit=1")
    assert status == 200
    assert (answer["total_count"], answer["missing_partitions"]) == (2, [3])
    [shown] = answer["transactions"]
    assert (shown["transaction_id"], shown["producer_group"]) == ("T1", "shop")
    assert (shown["topics"], shown["half_offsets"]) == (["orders", "points"], [17, 18])
    assert (shown["next_check_s"], shown["from_index"]) == (42.0, False)


async def test_a_page_of_many_is_what_comes_after_those_that_are_skipped() -> None:
    names = [f"T{number}" for number in range(5)]
    operations = FakeOperations([undecided(name) for name in names], [*map(parked, names)])
    async with opened(operations) as ask:
        for path in ("/v1/transactions", "/v1/parked"):
            _, answer = await ask(f"{path}?skip=2&limit=2")
            assert [row["transaction_id"] for row in answer["transactions"]] == ["T2", "T3"]
            assert answer["total_count"] == 5
            _, answer = await ask(f"{path}?skip=7&limit=2")
            assert (answer["transactions"], answer["total_count"]) == ([], 5)
        _, answer = await ask("/v1/names?skip=3")
        assert answer["names"] == {"shop": ["T3", "T4"]}
        assert (await ask("/v1/transactions?skip=10001"))[0] == 400
        operations.calls.clear()
        await ask("/v1/transactions?skip=9990&limit=50")
        assert operations.calls[0][1].count_max == 10_000  # never more than without pages


@pytest.mark.parametrize("path", ["/v1/transactions", "/v1/parked"])
async def test_filters_are_query_parameters(path: str) -> None:
    operations = FakeOperations()
    async with opened(operations) as ask:
        query = "?group=a%2Fb&topic=%C3%BC&id=T+1&older_than_s=1.5&min_checks=3&limit=7"
        assert (await ask(path + query))[0] == 200
        assert (await ask(path))[0] == 200
    [(_, wanted), (_, without)] = operations.calls
    assert wanted == Filter(
        producer_group="a/b", topic="ü", transaction_id="T 1", older_than_s=1.5,
        check_count_min=3, count_max=7,
    )  # fmt: skip
    assert without == Filter(count_max=1_000)


@pytest.mark.parametrize(
    "query",
    [
        "grup=x", "group=", "group=a&group=b", "older_than_s=soon", "older_than_s=-1",
        "older_than_s=nan", "older_than_s=inf", "min_checks=-1", "min_checks=1.5", "limit=10001",
        "limit=99999999999", "limit=%D9%A1", "group=%FF", "&".join(f"x{n}=1" for n in range(99)),
    ],
)  # fmt: skip
async def test_a_filter_that_makes_no_sense_is_refused(query: str) -> None:
    operations = FakeOperations()
    async with opened(operations) as ask:
        status, answer = await ask(f"/v1/transactions?{query}")
    assert (status, code(answer)) == (400, "invalid_request")
    assert operations.calls == []


async def test_a_parked_transaction_is_shown_with_its_content() -> None:
    messages = [
        ParkedMessage("orders", 3, b"k", "ü".encode(), [("a", b"1"), ("a", None), ("b", b"\xff")]),
        ParkedMessage("orders", None, None, b"\xff\x00", []),
    ]
    operations = FakeOperations(given_up=[parked("T1")], messages=messages, left_out_count=4)
    async with opened(operations) as ask:
        status, listed = await ask("/v1/parked")
        assert (status, listed["total_count"], listed["left_out_count"]) == (200, 1, 4)
        status, answer = await ask("/v1/parked/shop/T1")
    assert status == 200
    assert answer["transaction"] == listed["transactions"][0]
    assert answer["transaction"]["reason"] == "checks_exhausted"
    headers = [["a", "1"], ["a", None], ["b", {"base64": "/w=="}]]
    assert answer["messages"] == [
        {"topic": "orders", "partition": 3, "key": "k", "value": "ü", "headers": headers},
        {"topic": "orders", "key": None, "value_base64": "/wA=", "headers": []},
    ]


@pytest.mark.parametrize(
    ("action", "state"), [("commit", "committed"), ("rollback", "rolled_back")]
)
async def test_a_decision_carries_operator_and_reason(action: str, state: str) -> None:
    operations = FakeOperations()
    async with opened(operations) as ask:
        answer = await ask(f"/v1/transactions/shop/T1/{action}", ORDER)
    assert answer == (200, {"transaction_id": "T1", "state": state})
    assert operations.calls == [(action, "shop", "T1", "asked the shop", "ann")]


async def test_a_check_needs_no_reason_and_a_resume_gives_what_was_resumed() -> None:
    operations = FakeOperations(given_up=[parked("T1")])
    async with opened(operations) as ask:
        answer = await ask("/v1/transactions/shop/T1/check", {"operator": "ann"})
        assert answer == (202, {"transaction_id": "T1", "state": "pending"})
        status, answer = await ask("/v1/parked/shop/T1/resume", ORDER)
        assert (status, answer["transaction"]["transaction_id"]) == (200, "T1")
    assert [call[0] for call in operations.calls] == ["check", "resume"]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("a%2Fb/c%2Fd", ("a/b", "c/d")),
        ("%C3%BC/%25", ("ü", "%")),
        ("a%3Fb/c%23d", ("a?b", "c#d")),
        ("%2e%2e/%2e", ("..", ".")),
        ("a+b/c%20d", ("a+b", "c d")),
    ],
)
async def test_group_and_id_are_percent_encoded(path: str, names: tuple[str, str]) -> None:
    operations = FakeOperations(given_up=[parked(names[1], names[0])])
    async with opened(operations) as ask:
        assert (await ask(f"/v1/transactions/{path}/commit", ORDER))[0] == 200
        assert (await ask(f"/v1/parked/{path}"))[0] == 200
        assert (await ask(f"/v1/parked/{path}/resume", ORDER))[0] == 200
    assert [call[1:3] for call in operations.calls] == [names] * 3


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/transactions/shop/T1", 404),
        ("/v1/transactions/shop/T1/delete", 404),
        ("/v1/transactions/shop/T1/commit/", 404),
        ("/v1/transactions/shop//T1/commit", 404),
        ("/v1/transactions//T1/commit", 404),
        ("/v1/transactions/shop/commit", 404),
        ("/v1/parked/shop/T1/commit", 404),
        ("/v1/parked/resume", 404),
        ("/v1/transactions/shop/%FF/commit", 400),
        ("/v1/transactions", 405),
        ("/v1/parked", 405),
        ("/v1/status", 405),
    ],
)
async def test_other_paths_change_nothing(path: str, status: int) -> None:
    operations = FakeOperations(given_up=[parked("T1")])
    async with opened(operations) as ask:
        found, answer = await ask(path, ORDER)
        assert found == status, answer
        assert code(answer)
    assert operations.calls == []


async def test_a_question_changes_nothing() -> None:
    operations = FakeOperations()
    async with opened(operations) as ask:
        for path in (
            "transactions/shop/T1/commit",
            "transactions/shop/T1/check",
            "parked/s/T1/resume",
        ):
            assert (await ask(f"/v1/{path}"))[0] == 405
        for method in ("PUT", "DELETE", "PATCH"):
            path = "/v1/transactions/shop/T1/commit"
            assert (await ask(path, ORDER, method=method))[0] == 405
    assert operations.done() == []


@pytest.mark.parametrize(
    ("body", "headers", "status", "expected"),
    [
        (b"", {}, 400, "invalid_json"),
        (b"{", {}, 400, "invalid_json"),
        (b"\xff", {}, 400, "invalid_json"),
        (b"[" * 10_000, {}, 400, "invalid_json"),
        ({"reason": "no operator"}, {}, 400, "invalid_json"),
        ({**ORDER, "force": True}, {}, 400, "invalid_json"),
        ({"reason": 1, "operator": "ann"}, {}, 400, "invalid_json"),
        (b" " * 20_000, {}, 413, "message_too_large"),
        (ORDER, {"Content-Type": "text/plain"}, 415, "unsupported_media_type"),
        (ORDER, {"Content-Type": "multipart/form-data"}, 415, "unsupported_media_type"),
        (ORDER, {"Origin": "http://evil.example"}, 403, "origin_not_allowed"),
        (ORDER, {"Origin": "null"}, 403, "origin_not_allowed"),
        (ORDER, {"Host": "evil.example"}, 403, "host_not_allowed"),
    ],
)  # fmt: skip
async def test_an_order_that_is_none_changes_nothing(
    body: Any, headers: dict[str, str], status: int, expected: str
) -> None:
    operations = FakeOperations()
    async with opened(operations) as ask:
        found, answer = await ask("/v1/transactions/shop/T1/commit", body, headers=headers)
    assert (found, code(answer)) == (status, expected)
    assert operations.calls == []


async def test_operators_need_the_token() -> None:
    operations = FakeOperations(given_up=[parked("T1")])
    async with opened(operations, TOKEN) as ask:
        for path in ("/v1/transactions", "/v1/parked", "/v1/parked/shop/T1"):
            assert (await ask(path))[0] == 401
            assert (await ask(path, headers={"Half-Token": TOKEN}))[0] == 200
        path = "/v1/transactions/shop/T1/commit"
        assert (await ask(path, ORDER))[0] == 401
        assert operations.done() == []
        assert (await ask(path, ORDER, headers={"Half-Token": TOKEN}))[0] == 200


@pytest.mark.parametrize(
    ("error", "status", "more"),
    [
        (TransactionNotFound("nobody knows it"), 404, {}),
        (TransactionParked("it is parked"), 409, {}),
        (
            ContraryDecision("no", decided="committed", requested="rolled_back"),
            409,
            {"decided": "committed", "requested": "rolled_back"},
        ),
        (OutcomeUnknown("perhaps"), 503, {}),
        (RedisUnavailable("away"), 503, {}),
    ],
)
async def test_errors_look_as_they_do_elsewhere(
    error: Any, status: int, more: dict[str, str]
) -> None:
    async with opened(FakeOperations(fails={"T1": error})) as ask:
        found, answer = await ask("/v1/transactions/shop/T1/commit", ORDER)
    assert found == status
    wanted = {"code": error.code, "message": error.message, "retryable": error.retryable}
    assert answer == {"error": {**wanted, **more}}


@pytest.mark.parametrize("error", [InvariantViolation("a detail"), ZeroDivisionError("a detail")])
async def test_a_fault_of_ours_is_not_told(error: Exception) -> None:
    async with opened(FakeOperations(fails={"T1": error})) as ask:
        status, answer = await ask("/v1/transactions/shop/T1/commit", ORDER)
    assert (status, code(answer)) == (500, "internal_error")
    assert "detail" not in str(answer)


async def test_without_operations_there_are_no_such_routes() -> None:
    async with opened(None) as ask:
        assert (await ask("/v1/transactions"))[0] == 404
        assert (await ask("/v1/parked/shop/T1"))[0] == 404


async def test_many_are_named_in_one_body_and_each_has_its_answer() -> None:
    operations = FakeOperations(fails={"T2": TransactionNotFound("nobody knows it")})
    body = {**ORDER, "transactions": {"shop": ["T1", "T2", "T1"], "a/b": ["T1"]}}
    async with opened(operations) as ask:
        status, answer = await ask("/v1/many/rollback", body)
        assert (await ask("/v1/many/commit", body))[0] == 200
        assert (await ask("/v1/many/check", body))[0] == 200
    assert status == 200
    not_found = {"code": "transaction_not_found", "message": "nobody knows it", "status": 404}
    assert answer == {
        "results": {
            "shop": [{"state": "rolled_back"}, {"error": not_found}, {"state": "rolled_back"}],
            "a/b": [{"state": "rolled_back"}],
        }
    }
    assert [call[:3] for call in operations.done()[:3]] == [
        ("rollback", "shop", "T1"), ("rollback", "shop", "T2"), ("rollback", "a/b", "T1"),
    ], "one that is named twice is decided once, and answered twice"  # fmt: skip


@pytest.mark.parametrize(
    ("transactions", "expected"),
    [
        ({}, "invalid_request"),
        ({"shop": []}, "invalid_request"),
        ({"shop": [str(n) for n in range(1_001)]}, "invalid_request"),
        (["T1"], "invalid_json"),
        ({"shop": [7]}, "invalid_json"),
    ],
)
async def test_a_body_that_names_nobody_or_too_many_changes_nothing(
    transactions: Any, expected: str
) -> None:
    operations = FakeOperations()
    async with opened(operations) as ask:
        status, answer = await ask("/v1/many/commit", {**ORDER, "transactions": transactions})
        assert (await ask("/v1/many/commit", ORDER))[0] == 400
    assert (status, code(answer)) == (400, expected)
    assert operations.calls == []


async def test_names_of_all_fit_into_one_answer() -> None:
    pending = [undecided(f"T{n}") for n in range(15_000)] + [undecided("T1", "bank")]
    operations = FakeOperations(pending, missing_partitions=[3])
    async with opened(operations) as ask:
        status, answer = await ask("/v1/names?limit=200000")
        assert (await ask("/v1/names?limit=200001"))[0] == 400
    assert (status, answer["total_count"], answer["missing_partitions"]) == (200, 15_001, [3])
    assert (len(answer["names"]["shop"]), answer["names"]["bank"]) == (15_000, ["T1"])
