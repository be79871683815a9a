"""The contract: it says what the door does, and the door does what it says."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml

from halfhitch import errors
from halfhitch.doors.http.errors import ERROR_CODES, STATUS_OF, InternalError
from halfhitch.doors.http.messages import AddBody, MessageBody, PrepareBody
from halfhitch.doors.http.router import HALF_HEADERS, ROUTES, Route
from harness.defaults import http_limits
from harness.fake_desk import FakeDesk, a_check
from harness.identities import access_with
from harness.raw_http import Answer, Client, json_post, raw_half, request, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import OpenDoors

CONTRACT = yaml.safe_load(files("halfhitch.doors.http").joinpath("openapi.yaml").read_text())
OPERATIONS = {
    operation["operationId"]: (method.upper(), pattern, item, operation)
    for pattern, item in CONTRACT["paths"].items()
    for method, operation in item.items()
    if method != "parameters"
}


def resolved(node: Any) -> Any:
    while isinstance(node, dict) and "$ref" in node:
        target: Any = CONTRACT
        for key in node["$ref"].removeprefix("#/").split("/"):
            target = target[key]
        node = target
    return node


def check(value: object, schema: object) -> None:
    # The document goes along, so that references find their targets.
    whole = {"allOf": [schema], "components": CONTRACT["components"]}
    validator = jsonschema.Draft202012Validator(whole)
    validator.check_schema(whole)
    validator.validate(value)


def parameters(operation_id: str, place: str) -> dict[str, dict[str, Any]]:
    _, _, item, operation = OPERATIONS[operation_id]
    every = [resolved(p) for p in [*item.get("parameters", []), *operation.get("parameters", [])]]
    return {p["name"]: p for p in every if p["in"] == place}


def codes_of(status: str) -> set[str]:
    """The codes the contract lists for a status."""
    found: set[str] = set()
    for response in CONTRACT["components"]["responses"].values():
        used = any(
            op["responses"].get(status) == {"$ref": f"#/components/responses/{name}"}
            for name, candidate in CONTRACT["components"]["responses"].items()
            if candidate is response
            for *_, op in OPERATIONS.values()
        )
        if used:
            schema = response["content"]["application/json"]["schema"]
            for part in schema.get("allOf", []):
                if "properties" in part:
                    found |= set(part["properties"]["error"]["properties"]["code"]["enum"])
    return found


def examples(node: Any, schema: Any = None) -> Iterator[tuple[object, object]]:
    """Every example in the document with the schema it stands beside."""
    if isinstance(node, dict):
        if "examples" in node and "schema" in node:
            for example in node["examples"].values():
                yield example["value"], node["schema"]
        if "example" in node and "schema" in node:
            yield node["example"], node["schema"]
        for child in node.values():
            yield from examples(child)
    elif isinstance(node, list):
        for child in node:
            yield from examples(child)


def test_contract_and_route_table_agree() -> None:
    described = {(op_id, method, pattern) for op_id, (method, pattern, *_) in OPERATIONS.items()}
    assert described == {(route.name, route.method, route.pattern) for route in ROUTES}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_each_route_is_described_with_all_it_takes(route: Route) -> None:
    in_path = set(re.findall(r"{(\w+)}", route.pattern))
    assert set(parameters(route.name, "path")) == in_path
    query = {n: p["schema"].get("enum") for n, p in parameters(route.name, "query").items()}
    read_by_handler = {} if route.parameter is None else {route.parameter: None}
    assert query == {name: [value] for name, value in route.options} | read_by_handler
    headers = {name.lower().encode() for name in parameters(route.name, "header")}
    user_header = {b"half-header-<name>"} if route.has_user_headers else set()
    assert headers == route.half_headers | user_header
    assert ("requestBody" in OPERATIONS[route.name][3]) == route.has_body
    assert ("429" in OPERATIONS[route.name][3]["responses"]) is not route.is_always_taken


def test_all_half_headers_are_described_somewhere() -> None:
    described = {name.lower().encode() for op in OPERATIONS for name in parameters(op, "header")}
    assert described - {b"half-header-<name>"} == HALF_HEADERS
    assert CONTRACT["components"]["securitySchemes"]["token"]["name"] == "Half-Token"


def test_every_error_code_is_listed_under_its_status() -> None:
    by_status: dict[int, set[str]] = {}
    for error, status in STATUS_OF.items():
        code = InternalError.code if status == 500 else error.code
        by_status.setdefault(status, set()).add(code)
    assert {status: codes_of(str(status)) for status in by_status} == by_status
    assert set().union(*by_status.values()) == ERROR_CODES


@pytest.mark.parametrize(
    ("name", "struct"),
    [("PrepareBody", PrepareBody), ("AddBody", AddBody), ("Message", MessageBody)],
)
def test_bodies_have_the_fields_the_contract_names(name: str, struct: type) -> None:
    described = CONTRACT["components"]["schemas"][name]
    assert set(described["properties"]) == set(struct.__struct_fields__)  # type: ignore[attr-defined]
    assert described["additionalProperties"] is False


def test_every_example_fits_its_schema() -> None:
    found = list(examples(CONTRACT))
    assert len(found) > 25
    for value, schema in found:
        check(value, schema)


def test_every_error_answer_has_an_example() -> None:
    for name, response in CONTRACT["components"]["responses"].items():
        assert response["content"]["application/json"]["examples"], name


def check_answer(operation_id: str, answer: Answer) -> None:
    response = resolved(OPERATIONS[operation_id][3]["responses"][str(answer.status)])
    for name, header in response.get("headers", {}).items():
        value = answer.header(name)
        assert value is not None, f"{name} is missing"
        schema = resolved(header)["schema"]
        check(int(value) if schema["type"] == "integer" else value, schema)
    content = response.get("content", {})
    if not content:
        assert answer.body == b""
        assert answer.header("content-type") is None
    elif "application/json" in content:
        check(answer.json(), content["application/json"]["schema"])
    else:
        assert answer.header("content-type") in content


async def test_what_the_door_answers_is_what_the_contract_says(doors: OpenDoors) -> None:
    door = await doors.open()
    client = await doors.client(door)
    prepare = resolved(OPERATIONS["prepare"][3]["requestBody"])["content"]["application/json"]
    for example in prepare["examples"].values():
        check_answer("prepare", await client.ask(json_post("/v1/transactions", example["value"])))
    check_answer("half", await client.ask(raw_half()))
    add = resolved(OPERATIONS["add"][3]["requestBody"])["content"]["application/json"]
    for example in add["examples"].values():
        asked = json_post("/v1/transactions/h.0/messages", example["value"])
        check_answer("add", await client.ask(asked))
    for target in ("/v1/transactions/h.0", "/v1/transactions/h.unknown", "/v1/transactions/h.gone"):
        check_answer("view", await client.ask(request("GET", target)))
    for end in ("commit", "commit?wait=visible", "rollback"):
        asked = request("POST", f"/v1/transactions/h.0/{end}")
        check_answer(end.split("?")[0], await client.ask(asked))
    asked = request("POST", "/v1/transactions/h.2/rollback?wait=visible&source=check")
    check_answer("rollback", await client.ask(asked))
    check_answer("unknown", await client.ask(request("POST", "/v1/transactions/h.0/unknown")))
    check_answer("openapi", await client.ask(request("GET", "/v1/openapi.yaml")))


async def test_the_lines_of_a_stream_are_what_the_contract_says(doors: OpenDoors) -> None:
    door = await doors.open(checks=(desk := FakeDesk(waiting=[a_check()])))
    client = await doors.client(door)
    await client.send(request("GET", "/v1/checks?producer_group=g", [("Half-Heartbeat", "60")]))
    await until(lambda: desk.links)
    await door.stop()
    answer = await client.answer()
    described = OPERATIONS["checks"][3]["responses"]["200"]["content"]
    media_type = answer.header("content-type")
    lines = [json.loads(line) for line in answer.body.splitlines()]
    assert [line["type"] for line in lines] == ["heartbeat", "check"]
    for line in lines:
        check(line, described[media_type]["schema"])


async def error_answers(doors: OpenDoors) -> list[Answer]:
    """One answer of every kind the door itself can be driven to."""
    limits = http_limits(receive_s=0.1, body_bytes_max=1000, linger_silence_s=0.1)
    door = await doors.open(limits=limits)
    single = [
        raw_half(b"v", ("Content-Encoding", "gzip")),
        raw_half(b"x" * 1001),
        raw_half(b"v", ("Expect", "x")),
        raw_half(b"v", ("X", "x" * 40_000)),
        request("POST", "/v1/transactions", [("Origin", "null")]),
        request("PUT", "/v1/transactions"),
        request("GET", "/nowhere"),
        json_post("/v1/transactions", b"{"),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        raw_half()[:-1],
    ]
    answers = [await (await doors.client(door)).ask(asked) for asked in single]
    closed = await doors.open(access=access_with("s3cret"))
    answers.append(await (await doors.client(closed)).ask(raw_half()))
    busy = await doors.open(limits=http_limits(connection_count_max=1, in_flight_count_max=1))
    first = await doors.client(busy)
    await first.ask(raw_half())
    answers.append(await (await doors.client(busy)).ask(raw_half()))
    client: Client = await doors.client(door)
    for found, status in STATUS_OF.items():
        if found.__module__ != errors.__name__ or status == 500:
            continue
        if found is errors.ContraryDecision:
            doors.service.fail_with = errors.ContraryDecision(
                "It ended.", decided="committed", requested="rolled_back"
            )
        else:
            doors.service.fail_with = found("The service says so.")
        answers.append(await client.ask(raw_half()))
    doors.service.fail_with = RuntimeError("a bug")
    answers.append(await client.ask(raw_half()))
    return answers


async def test_every_error_the_door_answers_is_what_the_contract_says(doors: OpenDoors) -> None:
    answers = await error_answers(doors)
    for answer in answers:
        operation = "half" if answer.status != 404 else "view"
        check_answer(operation, answer)
    assert {answer.status for answer in answers} == set(STATUS_OF.values())
