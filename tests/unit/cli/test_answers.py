"""Answers of another release: a field that is missing, or of a wrong kind, is no traceback.

The answers are a real door's. Each field of each of them is taken away or changed in turn, seeded,
and every command that asks is run on it, and every page of `top`.
"""

from __future__ import annotations

import copy
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from halfhitch.errors import HalfHitchError
from halfhitch.service.api import ParkedMessage
from halfhitch_cli.answers import KINDS, Answer, settings_of, without_strange
from halfhitch_cli.app import main
from halfhitch_cli.client import AdminClient
from halfhitch_cli.top import pages, story
from halfhitch_cli.top.looking import Door, Wish
from halfhitch_cli.top.numbers import Pace
from harness.admin_door import admin_door
from harness.fake_operations import FakeOperations, parked, undecided
from harness.strange_answers import GONE, OTHERS, Busy, changed, places
from harness.told import ToldLog, answered, asked, ended, stories_service

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

CONTRACT: Any = yaml.safe_load(files("halfhitch.doors.admin").joinpath("openapi.yaml").read_text())
#: Of each command; there are some hundreds for most.
TRIED = 20
ASKING = [
    ["status"], ["status", "-o", "json"], ["producers"], ["tx", "list"],
    ["tx", "list", "-o", "json"], ["tx", "explain", "T1"], ["tx", "explain", "P1"],
    ["tx", "list", "--state", "ended"], ["tx", "show", "T1"], ["tx", "trace", "E1"],
    ["tx", "trace", "E1", "--offsets"], ["parked", "list"], ["parked", "show", "P1"],
    ["parked", "export", "--all-matching"], ["config", "show"], ["doctor"],
    ["tx", "rollback", "T1", "--reason", "gone", "--yes"],
    ["tx", "check", "T1"],
    ["tx", "commit", "--all-matching", "--group", "shop", "--reason", "gone", "--yes"],
    ["tx", "rollback", "--all-matching", "--older-than", "0s", "--reason", "gone", "--dry-run"],
    ["parked", "resume", "--all-matching", "--reason", "gone", "--yes"],
]  # fmt: skip


class Between:
    """Stands between a door and whoever asks it; changes one field of one answer."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, tuple[Any, ...]], None] = {}
        self.changes: tuple[str, tuple[Any, ...]] | None = None
        self.to: Any = GONE

    def __call__(self, path: str, raw: bytes) -> bytes:
        try:
            answer = json.loads(raw)
        except ValueError:
            return raw
        path = path.partition("?")[0]
        self.seen.update(dict.fromkeys((path, place) for place in places(answer)))
        if self.changes is None or self.changes[0] != path:
            return raw
        return json.dumps(changed(answer, self.changes[1], self.to)).encode()


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Between:
    it = Between()
    asked_raw = AdminClient._raw

    def raw(self: AdminClient, method: str, path: str, *more: Any) -> tuple[int, bytes]:
        status, found = asked_raw(self, method, path, *more)
        return status, it(path, found)

    monkeypatch.setattr(AdminClient, "_raw", raw)
    return it


@pytest.fixture
def port() -> Iterator[int]:
    messages = [ParkedMessage("orders", 1, b"k", b"\xff", [("a", b"1"), ("b", None)])]
    operations = FakeOperations([undecided("T1"), undecided("T2")], [parked("P1")], messages)
    told = ToldLog([asked(), answered(), ended()])
    info = {"instance": "shop-1", "uptime_s": 1.5, "version": "1.0", "owner": True}
    with admin_door(
        operations, {"http.port": 8340}, system=Busy(info),
        stories=stories_service(told, operations),
    ) as found:  # fmt: skip
        yield found


def tried(between: Between, run: Callable[[], None], rng: random.Random) -> Iterator[str]:
    """Runs it on changed answers; tells which change was too much."""
    run()
    every = [(change, to) for change in list(between.seen) for to in OTHERS]
    assert every, "nothing was asked"
    chosen = rng.sample(every, min(TRIED, len(every)))
    for between.changes, between.to in chosen:
        try:
            run()
        except Exception as error:  # noqa: BLE001 - what a traceback would tell
            to = "nothing" if between.to is GONE else repr(between.to)
            yield f"{between.changes} as {to}: {error!r}"


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_a_field_of_a_wrong_kind_was_a_traceback(
    words: list[str],
    port: int,
    between: Between,
    rng: random.Random,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run() -> None:
        main([*words, "--admin-port", str(port)])
        assert "Traceback" not in capsys.readouterr().err

    assert list(tried(between, run, rng)) == []


@pytest.mark.parametrize("page", ["overview", "transactions", "parked", "groups", "partitions"])
def test_a_page_of_top_bears_any_answer(
    page: str, port: int, between: Between, rng: random.Random
) -> None:
    door, pace = Door(AdminClient("127.0.0.1", port, None)), Pace()

    def run() -> None:
        try:
            look = door.look(Wish(page))
            if page == "overview":
                pages.overview(look, pace, 80)
            else:
                sort = pages.first_sort(page)
                rows = pages.ordered(page, look.rows, sort)
                pages.grid(page, rows, 80)
                pages.about(look, sort, 0)
                [pages.key_of(page, row) for row in rows]
            pages.head("x", look, "")
        except HalfHitchError:
            pass

    assert list(tried(between, run, rng)) == []


def test_a_story_in_top_bears_any_answer(port: int, between: Between, rng: random.Random) -> None:
    door = Door(AdminClient("127.0.0.1", port, None))

    def run() -> None:
        for transaction_id in ("E1", "P1"):
            try:
                story.told(door, "shop", transaction_id, values=True)
            except HalfHitchError:
                pass

    assert list(tried(between, run, rng)) == []


# -- the kinds -----------------------------------------------------------------------------------


def kind_of(schema: Any) -> str:
    """As KINDS has it."""
    schema = resolved(schema)
    if "anyOf" in schema:
        kinds = [kind_of(one) for one in schema["anyOf"]]
        null = "?" if any(kind.endswith(("?", "null")) for kind in kinds) else ""
        found = {kind.removesuffix("?") for kind in kinds if kind != "null"}
        return (found.pop() if len(found) == 1 else "any") + null
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return ("bool" if isinstance(values[0], bool) else "text") + "?" * (None in values)
    types = schema.get("type", "any")
    types, null = (types, "") if isinstance(types, str) else (types[0], "?" * ("null" in types))
    if "prefixItems" in schema:
        return "pair"
    if types == "array":
        return f"[{kind_of(schema.get('items', {}))}]{null}"
    if types == "object":
        more = schema.get("additionalProperties")
        inner = kind_of(more) if isinstance(more, dict) else "any"
        return "{}" + null if "properties" in schema else f"{{{inner}}}{null}"
    return {"integer": "int", "string": "text", "boolean": "bool"}.get(types, types) + null


def resolved(node: Any) -> Any:
    while "$ref" in node:
        target: Any = CONTRACT
        for key in node["$ref"].removeprefix("#/").split("/"):
            target = target[key]
        node = target
    return node


def fields(schema: Any) -> Iterator[tuple[str, str]]:
    """Each field below a schema, and its kind."""
    schema = resolved(schema)
    for name, below in schema.get("properties", {}).items():
        yield name, kind_of(below)
        yield from fields(below)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from fields(schema[name])
    for below in schema.get("anyOf", ()):
        yield from fields(below)


def test_the_kinds_are_those_of_the_contract() -> None:
    found: dict[str, str] = {}
    for item in CONTRACT["paths"].values():
        for operation in item.values():
            for response in operation["responses"].values():
                for content in resolved(response).get("content", {}).values():
                    for name, kind in fields(content["schema"]):
                        other = found.setdefault(name, kind)
                        assert other.removesuffix("?") == kind.removesuffix("?"), name
                        found[name] = max(other, kind, key=len)
    assert found == KINDS


def test_a_group_may_have_the_name_of_a_field() -> None:
    answer = {"names": {"state": ["T1"], "total_count": []}, "total_count": 1}
    assert without_strange(copy.deepcopy(answer)) == answer


def test_what_is_strange_is_missing_and_what_is_unknown_stays() -> None:
    answer = {
        "total_count": True, "new": [None], "age_s": 1, "asked": None, "transaction_id": None,
        "partitions": [{"phase": 7, "trouble": None, "oldest_age_by_group": {"g": "x"}}],
        "targets": [["orders"]], "landed": [7],
    }  # fmt: skip
    assert without_strange(answer) == {
        "new": [None], "age_s": 1, "asked": None, "partitions": [{"trouble": None}],
    }  # fmt: skip
    assert without_strange([7]) == [7]
    with pytest.raises(HalfHitchError, match="no 'age_s', or none that can be read"):
        Answer()["age_s"]


def test_settings_without_a_key_or_a_value_are_left_out() -> None:
    rows = [{"key": "a.b", "value": None}, {"key": ["a"], "value": 1}, {"value": 1}, {"key": "c"}]
    assert settings_of({"settings": rows}) == {"a.b": None}
