"""The console on answers of another release: a dash or a sentence, and never a script's error.

The answers are a real door's. One field of one of them is changed at a time, chosen by the seed,
and the page is looked at anew.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.service.api import ParkedMessage
from harness.console import console
from harness.fake_operations import FakeOperations, parked, undecided
from harness.strange_answers import GONE, OTHERS, Busy, changed, places
from harness.told import ToldLog, answered, asked, ended

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from harness.chromium import Browser

#: Of each page; there are some hundreds for most.
TRIED = 25
DASH = "\N{EN DASH}"
MARKUP = "<img src=x onerror=\"window.hit='img'\">"
KINDS = (*OTHERS, MARKUP, 1e300)
#: Stands between the page and its door: tells what was answered, and answers what it is told to.
BETWEEN = """
window.between = {answers: {}, out: 0, errors: []};
const really = window.fetch;
window.fetch = async (url, options) => {
  between.out += 1;
  try {
    const answer = await really(url, options);
    const path = url.pathname + url.search;
    between.answers[path] = await answer.text();
    const text = sessionStorage.getItem("instead of " + path) ?? between.answers[path];
    return {ok: answer.ok, status: answer.status, headers: answer.headers, text: async () => text};
  } finally {
    between.out -= 1;
  }
};
addEventListener("error", (event) => between.errors.push(String(event.message)));
addEventListener("unhandledrejection", (event) => between.errors.push(String(event.reason)));
"""
#: Looks anew, opens what can be opened, and gives what is to be read then.
LOOK = """
const settled = async () => {
  for (let quiet = 0; quiet < 3; quiet += 1) {
    await new Promise((resolve) => setTimeout(resolve, 0));
    if (between.out) quiet = -1;
  }
};
return (async () => {
  between.answers = {};
  dispatchEvent(new Event("hashchange"));
  await settled();
  for (const each of document.querySelectorAll("#body button"))
    if (/^Show (its|where)/.test(each.innerText)) each.click();
  await settled();
  return {
    text: document.querySelector("main").innerText, body: document.querySelector("#body").innerText,
    answers: between.answers, errors: between.errors.splice(0), hit: window.hit ?? null,
  };
})();
"""
SENTENCE = re.compile(r"The answer is none that this page can show: .*? Load the page again \(.*\)")
NONSENSE = re.compile(r"undefined|NaN|\[object|Invalid Date|Infinity|Looking…")
VIEWS = (
    "overview", "transactions", "transactions?state=ended", "parked", "producers", "partitions",
    "trace?id=E1", "trace?id=P1",
)  # fmt: skip
#: The others are long.
_USUAL = ("overview", "transactions", "trace?id=P1")


@pytest.fixture(scope="module")
def watched(browser: Browser) -> Browser:
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", source=BETWEEN)
    return browser


@pytest.fixture
def address(watched: Browser) -> Iterator[str]:
    messages = [ParkedMessage("orders", 1, b"k", b"\xff", [("a", b"1"), ("b", None)])]
    operations = FakeOperations([undecided("T1"), undecided("T2")], [parked("P1")], messages)
    info = {"instance": "shop-1", "uptime_s": 1.5, "owner": True}
    log = ToldLog([asked(), answered(), ended()])
    with console(watched, operations, log, system=Busy(info)) as found:
        watched.go(found)
        watched.wait_text("Oldest undecided")
        yield found


def nonsense(seen: Any) -> list[str]:
    """What of it is neither a dash nor a sentence."""
    found = [*seen["errors"], *NONSENSE.findall(SENTENCE.sub("", seen["text"]))]
    if not seen["body"].strip() and not SENTENCE.search(seen["text"]):
        found.append("nothing is shown")
    return found if seen["hit"] is None else [*found, "markup has acted"]


def told(place: tuple[Any, ...], to: Any) -> str:
    return f"{place} as {'nothing' if to is GONE else repr(to)}"


@pytest.mark.parametrize(
    "view",
    [view if view in _USUAL else pytest.param(view, marks=pytest.mark.long) for view in VIEWS],
)
def test_a_field_of_another_kind_blanked_a_page_or_was_told_as_undefined(
    view: str, watched: Browser, address: str, rng: random.Random
) -> None:
    watched.go(f"{address}#{view}")
    seen = watched.run(LOOK)
    assert nonsense(seen) == []
    every = [
        (path, json.loads(raw), place, to)
        for path, raw in seen["answers"].items()
        for place in places(json.loads(raw))
        for to in KINDS
    ]
    assert every, "nothing was asked"
    troubles = []
    for path, answer, place, to in rng.sample(every, min(TRIED, len(every))):
        instead = json.dumps(changed(answer, place, to))
        name = f"instead of {path}"
        watched.run("sessionStorage.setItem(arguments[0], arguments[1])", name, instead)
        found = nonsense(watched.run(LOOK))
        watched.run("sessionStorage.removeItem(arguments[0])", name)
        if found:
            troubles.append(f"{path}: {told(place, to)}: {found}")
    assert troubles == []


@pytest.mark.parametrize("to", [GONE, None, 7, "text", {"a": None}], ids=repr)
def test_whom_the_door_takes_one_for_may_be_told_in_another_way(
    to: Any, watched: Browser, address: str
) -> None:
    answer = changed({"name": None, "rights": ["operate"], "sees_all": True}, ("rights",), to)
    name, instead = "instead of /v1/me", json.dumps(answer)
    script = "sessionStorage.setItem(arguments[0], arguments[1]); location.reload()"
    watched.run(script, name, instead)
    watched.wait_text("The answer is none that this page can show", "#trouble")
    watched.run("sessionStorage.clear()")
    watched.press("r")
    watched.wait_text("Oldest undecided")


def test_a_cell_of_another_kind_is_a_dash_and_the_row_is_shown(
    watched: Browser, address: str
) -> None:
    watched.go(f"{address}#transactions")
    seen = watched.run(LOOK)
    (path,) = (path for path in seen["answers"] if path.startswith("/v1/transactions"))
    answer = json.loads(seen["answers"][path])
    answer["transactions"][0] |= {"topics": None, "age_s": "old"}
    name, instead = f"instead of {path}", json.dumps(answer)
    watched.run("sessionStorage.setItem(arguments[0], arguments[1])", name, instead)
    watched.run(LOOK)
    row = watched.text("#body tbody tr")
    assert row.split()[:5] == ["T1", "shop", DASH, "2", DASH], row
    watched.run("sessionStorage.clear()")
