"""The console in a real browser: what it shows, to whom, and that nothing shown becomes a page.

The door is the real one; behind it are transactions that a test gives.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.errors import TransactionNotFound
from halfhitch.service.api import ParkedMessage, PartitionPhase, PartitionState
from halfhitch.wire.plain import shown
from harness import identities
from harness.admin_door import QuietSystem
from harness.chromium import ENTER, ESCAPE
from harness.console import console
from harness.fake_operations import FakeOperations, parked, undecided
from harness.kafka import wait_until
from harness.told import ToldLog, answered, asked, ended

if TYPE_CHECKING:
    from harness.chromium import Browser

#: What would act, if it became more than text.
HOSTILE = (
    "<img src=x onerror=\"window.hit='img'\">",
    "<script>window.hit='script'</script>",
    "'\"><svg/onload=window.hit='svg'>",
    "javascript:window.hit='link'",
    "</dd></dl><iframe srcdoc=\"<script>parent.hit='frame'</script>\">",
    "{{7*7}}${window.hit='template'}",
    "__proto__",
    "#overview?group=x",
    "../../v1/status?%2e%2e",
    "\x1b[2J\u202egnp.evil\u2066\u200b\ufe0f\u2028",
)
TABLES = "#body tbody tr"


def signed_in(browser: Browser, address: str, token: str) -> None:
    browser.go(address)
    browser.fill("token", token)
    browser.click("Sign in")


def rows(browser: Browser) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map((row) => row.innerText)"
    found: list[str] = browser.run(script, TABLES)
    return found


def test_all_that_is_undecided_is_a_page_of_fifty_and_the_rest_a_key_away(
    browser: Browser,
) -> None:
    pending = [undecided(f"order-{number:06}") for number in range(100_000)]
    with console(browser, FakeOperations(pending)) as address:
        browser.go(f"{address}#transactions")
        browser.wait_text("1 to 50 of 100,000")
        assert len(rows(browser)) == 50
        browser.press("]")
        browser.wait_text("51 to 100 of 100,000")
        assert "order-000050" in rows(browser)[0]
        assert browser.run("return location.hash") == "#transactions?skip=50"
        browser.go(f"{address}#transactions?skip=9950")
        browser.wait_text("9,951 to 10,000 of 100,000")
        browser.wait_text("choose fewer with the filters")


def test_an_address_brings_back_what_was_seen_and_a_filter_is_part_of_it(browser: Browser) -> None:
    operations = FakeOperations([undecided("a"), undecided("b&group=x/ü #%", "bank")])
    with console(browser, operations) as address:
        browser.go(f"{address}#transactions")
        browser.fill("group", "bank")
        browser.click("Filter")
        browser.wait_text("1 to 1 of 1")
        assert [row.split()[0] for row in rows(browser)] == ["b&group=x/ü"]
        browser.click("b&group=x/ü #%")
        browser.wait_text("pending", "h2")
        found = browser.run("return location.href")
        browser.go("about:blank")
        browser.go(found)
        browser.wait_text("b&group=x/ü #%", "h2")
        browser.run("history.back()")


def test_the_keys_lead_through_a_list_and_into_a_transaction(browser: Browser) -> None:
    with console(browser, FakeOperations([undecided("a"), undecided("b")])) as address:
        browser.go(address)
        browser.wait_text("Oldest undecided")
        browser.press("2")
        browser.wait_text("1 to 2 of 2")
        browser.press("jj")
        browser.press(ENTER)
        browser.wait("return location.hash === '#trace?id=b&group=shop'")
        browser.press("?")
        browser.wait_text("These keys", "dialog")
        browser.press(ESCAPE)
        browser.wait("return !document.querySelector('dialog').open")
        browser.press("/")
        assert browser.run("return document.activeElement.name") == "id"
        browser.press("2")  # a figure in a field is none of the keys
        assert browser.run("return location.hash") == "#trace?id=b&group=shop"


def test_a_story_is_told_line_by_line(browser: Browser) -> None:
    log = ToldLog([asked(), answered(), ended()])
    with console(browser, FakeOperations(), log) as address:
        browser.go(f"{address}#trace?id=E1")
        browser.wait_text("forwarded")
        text = browser.text(".timeline")
        for told in ("prepared", "check 1, unknown, by pod-8, after 480 ms", "not yet", "+0.500s"):
            assert told in text
        browser.go(f"{address}#trace?id=nobody")
        browser.wait_text("Nothing is known of it. What has ended is kept since")
        browser.go(f"{address}#transactions?state=ended&since=1h")
        browser.wait_text("committed")


def test_the_messages_of_a_committed_one_are_looked_for_when_somebody_wants_them(
    browser: Browser,
) -> None:
    log = ToldLog([ended()])
    log.targets.value = HOSTILE[0].encode()
    log.targets.trouble = "the topic is gone"
    with console(browser, FakeOperations(), log, access=identities.access()) as address:
        signed_in(browser, f"{address}#trace?id=E1", identities.ROOT)
        browser.wait_text("forwarded")
        assert log.targets.asked == []
        browser.click("Show its messages on their topics")
        browser.wait_text("orders/2@17", ".message")
        for told in (HOSTILE[0], "base64:/w==", "kind"):
            assert told in browser.text(".message")
        assert "Not all of them: the topic is gone." in browser.text()
        browser.click("Sign out")
        signed_in(browser, f"{address}#trace?id=E1", identities.WATCHER)
        browser.click("Show where its messages lie")
        browser.wait_text("orders/2@17", ".message")
        assert "kind" not in browser.text(".message")


def test_what_was_done_is_seen_although_messages_were_opened(browser: Browser) -> None:
    operations = FakeOperations(given_up=[parked("p-1")], messages=[a_message()])
    with console(browser, operations) as address:
        browser.go(f"{address}#trace?id=p-1")
        browser.click("Show its messages")
        browser.wait_text("header", ".message")
        browser.click("Resume…")
        browser.fill("reason", "the topic is there again")
        browser.fill("operator", "alice")
        browser.click("Show what would be done")
        browser.click("Resume 1")
        browser.wait_text("1 resumed.", "dialog")
        browser.click("Close")
        browser.wait_text("Nothing is known of it")


class SlowMessages(FakeOperations):
    """The messages of what is parked come when they are let go."""

    async def parked_messages(self, *identity: Any) -> Any:
        self.loop, self.let_go = asyncio.get_running_loop(), asyncio.Event()
        found = await super().parked_messages(*identity)
        await self.let_go.wait()
        return found


def test_messages_that_were_asked_for_came_into_a_page_that_was_gone(browser: Browser) -> None:
    """It had been drawn anew meanwhile, as it is when something happens."""
    operations = SlowMessages(given_up=[parked("p-1")], messages=[a_message()])
    with console(browser, operations) as address:
        browser.go(f"{address}#trace?id=p-1")
        browser.click("Show its messages")
        wait_until(lambda: any(call[0] == "content" for call in operations.calls), 10.0)
        browser.run("document.querySelector('#trouble').append('until the next look')")
        browser.press("r")
        browser.wait("return !document.querySelector('#trouble').innerText")
        operations.loop.call_soon_threadsafe(operations.let_go.set)
        browser.wait_text("header", ".message")


def a_message(text: str = "x") -> ParkedMessage:
    headers = [(text, text.encode()), (text, None)]
    return ParkedMessage(text, 1, text.encode(), text.encode(), headers)


def test_nothing_that_is_shown_becomes_a_page(browser: Browser) -> None:
    pending = [
        undecided(text, group=text, topics=(text,), asked=text, last_reason=text, last_answer=text)
        for text in HOSTILE
    ]
    messages = [a_message(text) for text in HOSTILE]
    given_up = [
        parked(text, group=text, topics=(text,), detail=text, reason=text, decision_reason=text)
        for text in HOSTILE
    ]
    log = ToldLog([ended(HOSTILE[0], reason=HOSTILE[1], source=HOSTILE[2], why=HOSTILE[0])])
    operations = FakeOperations(pending, given_up, messages)
    with console(browser, operations, log, info={text: text for text in HOSTILE}) as address:
        browser.go(address)
        for page in ("#overview", "#transactions", "#parked", "#transactions?state=ended"):
            browser.go(f"{address}{page}")
            browser.wait_text(HOSTILE[0], "#body")
        browser.go(f"{address}#transactions")
        browser.wait_text("1 to 10 of 10")
        text = browser.text("#body")
        for hostile in HOSTILE:
            assert shown(hostile) in text
        for hostile in HOSTILE:
            browser.go("about:blank")
            query = browser.run(
                "return new URLSearchParams({id: arguments[0], group: arguments[0]}).toString()",
                hostile,
            )
            browser.go(f"{address}#trace?{query}")
            browser.click("Show its messages")
            browser.wait_text("header", ".message")
            assert shown(hostile) in browser.text("h2")
            assert all(shown(text) in browser.text("#body") for text in HOSTILE)
        state = browser.run(
            "return [window.hit ?? null, document.querySelectorAll('#body img, #body script, "
            "#body iframe, #body svg').length, Object.prototype.hit ?? null]"
        )
        assert state == [None, 0, None]


def test_text_is_escaped_as_the_command_line_escapes_it(browser: Browser) -> None:
    texts = [
        *HOSTILE,
        "plain ü 漢 عربي",
        "\x00\x7f\x85\xa0\xad",
        "a\tb\r\nc",
        "\U000e0041\ufeff",
        "\u3164",
    ]
    with console(browser, FakeOperations()) as address:
        browser.go(address)
        script = "return import('./console/shown.js').then((m) => arguments[0].map(m.shown))"
        assert browser.run(script, texts) == [shown(text) for text in texts]


def test_scripts_and_styles_from_elsewhere_are_refused_by_the_page_itself(browser: Browser) -> None:
    with console(browser, FakeOperations()) as address:
        browser.go(address)
        browser.wait_text("Oldest undecided")
        tried = browser.run(
            """
            const refused = [];
            document.addEventListener("securitypolicyviolation",
              (event) => refused.push(event.effectiveDirective));
            const add = (name, more) => document.body.append(
              Object.assign(document.createElement(name), more));
            try { document.body.innerHTML += "<b>x</b>"; refused.push("markup was taken"); }
            catch (error) { refused.push(error.name); }
            add("img", {src: "http://127.0.0.1:1/x.png"});
            add("link", {rel: "stylesheet", href: "http://127.0.0.1:1/x.css"});
            add("iframe", {src: "/console"});
            return fetch("http://127.0.0.1:1/").catch(() => 0).then(
              () => new Promise((resolve) => setTimeout(() => resolve(refused), 300)));
            """
        )
        assert "markup was taken" not in tried
        assert {"TypeError", "img-src", "style-src-elem", "frame-src", "connect-src"} <= set(tried)
        browser.complaints()


def test_without_a_token_nothing_is_shown_and_it_is_kept_for_the_tab_alone(
    browser: Browser,
) -> None:
    operations = FakeOperations([undecided("order-1")])
    with console(browser, operations, access=identities.access()) as address:
        browser.go(f"{address}#transactions")
        browser.wait_text("This door asks for a token")
        assert operations.calls == []
        browser.fill("token", "wrong-wrong-wrong-wrong")
        browser.click("Sign in")
        browser.wait_text("This token is not valid here")
        browser.fill("token", identities.KEEPER)
        browser.click("Sign in")
        browser.wait_text("order-1")
        browser.wait_text("keeper", "#who")
        kept = browser.run(
            "return [document.cookie, localStorage.length, location.href.includes(arguments[0])]",
            identities.KEEPER,
        )
        assert kept == ["", 0, False]
        browser.click("Sign out")
        browser.wait_text("This door asks for a token")
        assert "order-1" not in browser.text()


def test_who_may_look_only_is_offered_nothing_to_do_and_the_door_refuses_it_besides(
    browser: Browser,
) -> None:
    operations = FakeOperations([undecided("order-1")], [parked("p-1")])
    with console(browser, operations, access=identities.access()) as address:
        signed_in(browser, f"{address}#transactions", identities.WATCHER)
        browser.wait_text("order-1")
        browser.wait_text("watcher (may look only)", "#who")
        assert "Roll back" not in browser.text()
        assert browser.run("return document.querySelectorAll('#body input').length") == 0
        browser.go(f"{address}#trace?id=p-1")
        browser.wait_text("Its messages are shown to whoever may operate")
        assert "Resume" not in browser.text()
        script = """
            return import('./console/asking.js').then((m) => m.post("v1/many/rollback",
              {reason: "r", transactions: {shop: ["order-1"]}})).then(() => "done",
              (error) => error.code);"""
        assert browser.run(script) == "forbidden"
        assert operations.done() == []


def test_who_may_operate_on_one_group_is_offered_that_one_alone(browser: Browser) -> None:
    operations = FakeOperations([undecided("mine"), undecided("theirs", "bank")])
    access = identities.Access(
        identities=[
            identities.identity("both", "b" * 16, identities.Right.OBSERVE, groups=["*"]),
            identities.identity("one", "o" * 16, identities.Right.OPERATE, groups=["shop"]),
        ]
    )
    with console(browser, operations, access=access) as address:
        signed_in(browser, f"{address}#transactions", "o" * 16)
        browser.wait_text("mine")
        assert "theirs" not in browser.text()


@pytest.mark.parametrize(
    ("verb", "name", "done"),
    [("Commit", "commit", "committed"), ("Roll back", "rollback", "rolled back")],
)
def test_a_decision_asks_for_the_reason_shows_a_dry_run_and_then_accounts_for_everything(
    browser: Browser, verb: str, name: str, done: str
) -> None:
    pending = [undecided(f"order-{number}") for number in range(3)]
    operations = FakeOperations(pending)
    with console(browser, operations) as address:
        browser.go(f"{address}#transactions")
        browser.wait_text("order-2")
        browser.press("jx")
        browser.press("jx")
        browser.click(f"{verb} chosen…")
        browser.click("Show what would be done")
        assert browser.text("dialog .account") == ""  # a reason is missing
        browser.fill("reason", "ledger 17")
        browser.fill("operator", "alice")
        browser.click("Show what would be done")
        browser.wait_text(f"2 transactions of group shop would be {done}", "dialog")
        assert operations.done() == []
        browser.click(f"{verb} 2")
        browser.wait_text(f"2 {done}.", "dialog")
        assert operations.done() == [
            (name, "shop", f"order-{number}", "ledger 17", "alice") for number in range(2)
        ]


def test_a_second_enter_does_nothing_and_a_changed_reason_is_looked_at_again(
    browser: Browser,
) -> None:
    operations = FakeOperations([undecided("order-1")])
    with console(browser, operations) as address:
        browser.go(f"{address}#trace?id=order-1")
        browser.click("Roll back…")
        browser.fill("operator", "alice")
        browser.fill("reason", "gone")
        browser.press(ENTER)
        browser.wait_text("would be rolled back", "dialog")
        browser.fill("reason", "gone for good")
        browser.wait_text("Show what would be done", "dialog")
        browser.run("document.querySelector('dialog [name=reason]').focus()")
        browser.press(ENTER)
        browser.wait_text("would be rolled back", "dialog")
        browser.press(ENTER)
        browser.wait("return !document.querySelector('dialog').open")
        assert operations.done() == []


def test_all_that_match_are_those_of_the_dry_run_and_each_failure_is_told(browser: Browser) -> None:
    pending = [undecided(f"order-{number}") for number in range(1_200)]
    fails = {"order-7": TransactionNotFound("it has ended meanwhile")}
    operations = FakeOperations([*pending, undecided("b", "bank")], fails=dict(fails))
    with console(browser, operations) as address:
        browser.go(f"{address}#transactions?group=shop")
        browser.click("Roll back all 1,200…")
        browser.fill("reason", "gone")
        browser.fill("operator", "alice")
        browser.click("Show what would be done")
        browser.wait_text("and 1,190 more", "dialog")
        operations.pending.append(undecided("too late"))
        browser.click("Roll back 1,200")
        browser.wait_text("1,199 rolled back.", "dialog")
        browser.wait_text("order-7 shop: it has ended meanwhile", "dialog")
    names = [call[2] for call in operations.done()]
    assert sorted(names) == sorted(f"order-{number}" for number in range(1_200))


class _Slow(FakeOperations):
    """Decides when it is let go."""

    may_decide = False

    async def decide_many(self, *meant: Any, **how: Any) -> Any:
        while not self.may_decide:
            await asyncio.sleep(0.02)
        return await super().decide_many(*meant, **how)


def test_who_closed_the_dialog_while_it_worked_lost_the_account(browser: Browser) -> None:
    operations = _Slow([undecided(f"order-{number}") for number in range(1_500)])
    with console(browser, operations) as address:
        browser.go(f"{address}#transactions?group=shop")
        browser.click("Roll back all 1,500…")
        browser.fill("reason", "gone")
        browser.fill("operator", "alice")
        browser.click("Show what would be done")
        browser.click("Roll back 1,500")
        browser.wait_text("Stop", "dialog .account")
        browser.press(ESCAPE)
        browser.press(ESCAPE)
        browser.wait("return document.querySelector('dialog').open")
        operations.may_decide = True
        browser.wait_text("1,000 rolled back.", "dialog")
        browser.wait_text("500 not tried: stopped", "dialog")
        browser.click("Close")
        browser.wait("return !document.querySelector('dialog').open")
    assert len(operations.done()) == 1_000


def test_what_is_parked_is_put_back_by_filter(browser: Browser) -> None:
    given_up = [parked(f"p-{number}") for number in range(60)]
    given_up += [parked("..", detail="no path leads here"), parked("other", "bank")]
    operations = FakeOperations(given_up=given_up)
    with console(browser, operations) as address:
        browser.go(f"{address}#parked?group=shop")
        browser.click("Resume all 61…")
        browser.fill("reason", "the topic is there again")
        browser.fill("operator", "alice")
        browser.click("Show what would be done")
        browser.wait_text("61 transactions of group shop would be resumed", "dialog")
        browser.click("Resume 61")
        browser.wait_text("60 resumed.", "dialog")
        browser.wait_text("No browser can name this one in an address", "dialog")
    assert len(operations.done()) == 60
    assert all(call[0] == "resume" for call in operations.done())


class _Busy(QuietSystem):
    """Owns a partition in trouble."""

    def partitions(self) -> list[Any]:
        state = PartitionState(
            2, PartitionPhase.FAILED, 12345, 0, 0, 5, 10, 12, 20, 25, "the broker is away"
        )
        state.waiting_by_topic = {"orders": 7}
        return [state]


def test_producers_and_partitions_are_shown_with_their_trouble(browser: Browser) -> None:
    with console(browser, FakeOperations(), system=_Busy()) as address:
        browser.go(f"{address}#partitions")
        browser.wait_text("the broker is away")
        assert "12,345" in rows(browser)[0]
        assert "orders (7)" in rows(browser)[0]
        browser.press("4")
        browser.wait_text("vm-1, vm-2")
        assert browser.text("tr .bad") == "nobody"


def test_a_sidecar_that_goes_away_is_told_and_what_was_seen_stays(browser: Browser) -> None:
    operations = FakeOperations([undecided("order-1")])
    with console(browser, operations) as address:
        browser.go(f"{address}#transactions")
        browser.wait_text("order-1")
    browser.press("r")
    browser.wait_text("No answer of the sidecar", "#trouble")
    browser.wait_text("What is shown is older", "#trouble")
    assert "order-1" in browser.text("#body")
    browser.complaints()


def test_it_looks_again_by_itself_and_not_while_it_is_paused(browser: Browser) -> None:
    operations = FakeOperations([undecided("order-1")])
    with console(browser, operations) as address:
        browser.go(f"{address}#transactions")
        browser.wait_text("order-1")
        operations.pending.append(undecided("order-2"))
        browser.wait_text("order-2")
        browser.press("p")
        browser.wait_text("paused", "#live")
        operations.pending.append(undecided("order-3"))
        before = len(operations.calls)
        browser.run("return new Promise((resolve) => setTimeout(resolve, 4000))")
        assert len(operations.calls) == before
        browser.press("p")
        browser.wait_text("order-3")


def test_the_overview_searched_the_audit_topic_at_each_look(browser: Browser) -> None:
    operations, log = FakeOperations([undecided("order-1")]), ToldLog([ended()])
    with console(browser, operations, log) as address:
        browser.go(address)
        browser.wait_text("E1")
        operations.pending.append(undecided("order-2"))
        browser.wait_text("order-2")
        assert "E1" in browser.text("#body")
        assert len(log.searches) == 1
        browser.press("r")
        operations.pending.append(undecided("order-3"))
        browser.wait_text("order-3")
        assert len(log.searches) == 2


def test_it_is_dark_where_the_reader_wants_it_dark(browser: Browser) -> None:
    script = "return getComputedStyle(document.body).backgroundColor"
    with console(browser, FakeOperations()) as address:
        browser.go(address)
        light = browser.run(script)
        wanted = [{"name": "prefers-color-scheme", "value": "dark"}]
        browser.devtools("Emulation.setEmulatedMedia", features=wanted)
        try:
            assert browser.run(script) != light
        finally:
            browser.devtools("Emulation.setEmulatedMedia", features=[])


def test_a_wrong_filter_is_told_in_a_sentence(browser: Browser) -> None:
    with console(browser, FakeOperations()) as address:
        browser.go(f"{address}#transactions?older=soon")
        browser.wait_text("A length of time is written 30s, 10m, 2h or 3d.", "#trouble")
        browser.go(f"{address}#nothing?__proto__=1&skip=-5")
        browser.wait_text("Overview", "h1")
        assert json.loads(browser.run("return JSON.stringify({}.skip ?? null)")) is None
