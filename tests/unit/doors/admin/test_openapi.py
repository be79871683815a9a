"""The admin door's contract: it says what the door does, and the door does what it says."""

from __future__ import annotations

import http.client
import json
import re
from importlib.resources import files
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

from halfhitch.doors.admin.changes import CHANGED
from halfhitch.doors.admin.console import CONSOLE
from halfhitch.doors.admin.operations import OPERATED
from halfhitch.doors.admin.routes import SHOWN
from halfhitch.doors.admin.stories import TOLD
from halfhitch.doors.http.router import Route
from halfhitch.errors import TransactionNotFound
from halfhitch.service.api import (
    ParkedMessage,
    ParkedPage,
    PartitionPhase,
    PartitionState,
    ProducersState,
    UndecidedPage,
)
from halfhitch.service.operators.stories import StoriesPage
from harness.admin_door import QuietSystem, admin_door
from harness.admin_doors import FakeSystem, opened
from harness.fake_operations import FakeOperations, parked, undecided
from harness.told import ToldLog, answered, asked, ended, stories_service

CONTRACT = yaml.safe_load(files("halfhitch.doors.admin").joinpath("openapi.yaml").read_text())
OPERATIONS = {
    operation["operationId"]: (method.upper(), pattern, operation)
    for pattern, item in CONTRACT["paths"].items()
    for method, operation in item.items()
}
#: What the console's page is made of is its own affair.
ROUTES = [
    route
    for route in (*SHOWN, *CHANGED, *CONSOLE, *OPERATED, *TOLD)
    if not route.pattern.startswith("/console/")
]


def resolved(node: Any) -> Any:
    while isinstance(node, dict) and "$ref" in node:
        target: Any = CONTRACT
        for key in node["$ref"].removeprefix("#/").split("/"):
            target = target[key]
        node = target
    return node


def check(value: object, schema: object) -> None:
    whole = {"allOf": [schema], "components": CONTRACT["components"]}
    validator = jsonschema.Draft202012Validator(whole)
    validator.check_schema(whole)
    validator.validate(value)


def parameters(operation: dict[str, Any], place: str) -> set[str]:
    every = [resolved(each) for each in operation.get("parameters", [])]
    return {each["name"] for each in every if each["in"] == place}


def test_contract_and_route_tables_agree() -> None:
    described = {(name, method, pattern) for name, (method, pattern, _) in OPERATIONS.items()}
    assert described == {(route.name, route.method, route.pattern) for route in ROUTES}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_each_route_is_described_with_all_it_takes(route: Route) -> None:
    _, _, operation = OPERATIONS[route.name]
    assert parameters(operation, "path") == set(re.findall(r"{(\w+)}", route.pattern))
    assert ("requestBody" in operation) == route.has_body
    assert (operation.get("security") == [{}]) == route.is_open
    assert ("default" in operation["responses"]) is not route.is_open


@pytest.mark.parametrize("path", ["/v1/transactions", "/v1/names", "/v1/parked", "/v1/stories"])
def test_the_filters_are_those_that_the_door_names_when_it_refuses_one(path: str) -> None:
    operations = FakeOperations()
    with admin_door(operations, {}, stories=stories_service(ToldLog(), operations)) as port:
        status, answer = ask(port, "GET", f"{path}?nothing=1")
    assert status == 400
    names = set(re.findall(r"\b\w+\b", answer["error"]["message"].rpartition("once")[2]))
    operation = CONTRACT["paths"][path]["get"]
    assert names - {"each"} == parameters(operation, "query")


def plain(schema: Any) -> Any:
    """Without what is for people, and with one form for what may be null."""
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: value
        for key, value in schema.items()
        if key in ("type", "items", "properties", "additionalProperties", "$ref", "enum", "anyOf")
    }
    if kept.get("type") == "array" and "items" in kept:
        kept["items"] = plain(kept["items"])
    if "additionalProperties" in kept:
        kept["additionalProperties"] = plain(kept["additionalProperties"])
    if "properties" in kept:
        kept["properties"] = {name: plain(each) for name, each in kept["properties"].items()}
    if isinstance(kept.get("type"), list):
        return {"anyOf": [{"type": kind} for kind in sorted(kept["type"])]}
    if "anyOf" in kept:
        kept["anyOf"] = sorted((plain(each) for each in kept["anyOf"]), key=repr)
    return kept


_, MADE = msgspec.json.schema_components(
    [UndecidedPage, ParkedPage, PartitionState, ProducersState, StoriesPage],
    ref_template="#/components/schemas/{name}",
)


@pytest.mark.parametrize("name", MADE)
def test_what_is_answered_is_described_field_by_field(name: str) -> None:
    made = MADE[name]
    described = CONTRACT["components"]["schemas"][name]
    if name == "Content":  # bytes become text or base64 on their way: doors/admin/contents.py
        assert set(described["properties"]) - {"key_base64", "value_base64"} == set(
            made["properties"]
        )
    elif name == "PartitionPhase":
        assert set(described["enum"]) == set(PartitionPhase)
    else:
        assert plain(described) == plain(made)


def ask(port: int, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, {"Content-Type": "application/json"})
        response = connection.getresponse()
        raw = response.read()
        if response.headers.get("content-type") == "application/json":
            return response.status, json.loads(raw)
        return response.status, raw.decode()
    finally:
        connection.close()


class OneOfEach(QuietSystem):
    """Owns a partition, and is degraded."""

    def partitions(self) -> list[Any]:
        return [PartitionState(2, PartitionPhase.WORKING, 1, 0, 0, 5, 10, 12, 20, 25, None)]

    def degraded_reasons(self) -> list[str]:
        return ["Redis is away"]


ORDER = {"operator": "alice", "reason": "paid"}
MANY = {**ORDER, "transactions": {"shop": ["T1", "T9"]}}


@pytest.mark.parametrize(
    ("name", "path", "body"),
    [
        ("readyz", "/readyz", None),
        ("metrics", "/metrics", None),
        ("status", "/v1/status", None),
        ("partitions", "/v1/partitions", None),
        ("producers", "/v1/producers", None),
        ("changes", "/v1/changes?after=0", None),
        ("config", "/v1/config", None),
        ("me", "/v1/me?group=shop", None),
        ("openapi", "/v1/openapi.yaml", None),
        ("undecided", "/v1/transactions?skip=0&limit=5", None),
        ("names", "/v1/names", None),
        ("commit", "/v1/transactions/shop/T1/commit", ORDER),
        ("rollback", "/v1/transactions/shop/T1/rollback", ORDER),
        ("check", "/v1/transactions/shop/T1/check", ORDER),
        ("commit_many", "/v1/many/commit", MANY),
        ("rollback_many", "/v1/many/rollback", MANY),
        ("check_many", "/v1/many/check", MANY),
        ("parked", "/v1/parked", None),
        ("parked_one", "/v1/parked/shop/P1", None),
        ("resume", "/v1/parked/shop/P1/resume", ORDER),
        ("stories", "/v1/stories?id=E1&look=values", None),
        ("stories", "/v1/stories?since_s=60", None),
        ("console", "/console", None),
        ("undecided", "/v1/transactions?limit=x", None),
        ("commit_many", "/v1/many/commit", {"reason": "nobody"}),
        ("parked_one", "/v1/parked/shop/nobody", None),
    ],
)
def test_what_the_door_answers_is_what_the_contract_says(name: str, path: str, body: Any) -> None:
    messages = [ParkedMessage("orders", 1, b"k", b"\xff", [("a", b"1"), ("b", b"\xff")])]
    messages += [ParkedMessage("orders", None, None, None, [("c", None)])]
    operations = FakeOperations(
        [undecided("T1")], [parked("P1")], messages, fails={"T9": TransactionNotFound("gone")}
    )
    stories = stories_service(ToldLog([asked(), answered(), ended()]), operations)
    method, _, operation = OPERATIONS[name]
    if body is not None:
        described = resolved(operation["requestBody"])["content"]["application/json"]
        if "operator" in body:
            check(body, described["schema"])
        for example in described["examples"].values():
            check(example["value"], described["schema"])
    settings = {"http.port": 8340}
    with admin_door(operations, settings, stories=stories, system=OneOfEach()) as port:
        status, answer = ask(port, method, path, body)
    responses = operation["responses"]
    assert str(status) in responses or status >= 400
    response = resolved(responses.get(str(status), responses.get("default")))
    media_type, content = next(iter(response["content"].items()))
    assert isinstance(answer, str) is not (media_type == "application/json")
    check(answer, content["schema"])


async def test_probes_answer_as_the_contract_says() -> None:
    system = FakeSystem()
    system.reasons = ["Kafka is away"]
    async with opened(system, death_reasons=lambda: ["it hangs"]) as ask_one:
        for path, name in (("/livez", "livez"), ("/readyz", "readyz")):
            status, headers, body = await ask_one(path)
            response = resolved(OPERATIONS[name][2]["responses"][str(status)])
            check(json.loads(body), response["content"]["application/json"]["schema"])
            assert ("retry-after" in headers) == ("headers" in response)
    async with opened(FakeSystem()) as ask_one:
        assert (await ask_one("/livez"))[0] == (await ask_one("/readyz"))[0] == 204
        status, headers, _ = await ask_one("/")
        assert status == 303
        assert "location" in headers


def test_the_contract_itself_is_given_out() -> None:
    with admin_door(FakeOperations(), {}) as port:
        _, answer = ask(port, "GET", "/v1/openapi.yaml")
    assert yaml.safe_load(answer) == CONTRACT
    assert CONTRACT["openapi"].startswith("3.1")
