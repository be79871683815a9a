"""The screen of `halfhitch top`, by textual's own pilot, on a real door over given transactions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.service.api import ParkedMessage, PartitionPhase, PartitionState
from halfhitch_cli.top import pages
from halfhitch_cli.top.listing import Listing
from harness import identities
from harness.admin_door import QuietSystem, admin_door
from harness.fake_operations import FakeOperations, parked, undecided
from harness.terminal import SMALL, Seen, top
from harness.told import ToldLog, ended, stories_service

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTILE = (
    "[red]x[/red]", "[/]", "[@click=app.quit]x[/]", "[link=http://evil]x", "\x1b[2J\x1b]0;t\x07",
    "\u202egnp.evil\u2066\u200b\ufe0f\u2028", "a\nb\rc\x9b31m", "x" * 400, "", "宽" * 60,
)  # fmt: skip


class Shop(QuietSystem):
    """Owns half partitions."""

    def partitions(self) -> list[Any]:
        return [
            PartitionState(number, PartitionPhase.WORKING, 3, 0, 0, 5, 10, 12, 20, 25, None)
            for number in range(2)
        ]


@pytest.fixture
def operations() -> FakeOperations:
    return FakeOperations(
        [undecided("T1"), undecided("T2", "bank", age_s=7_300, next_check_s=None)],
        [parked("P1", detail="nobody answered")],
        [ParkedMessage("orders", None, b"k", b"secret", [])],
    )


@pytest.fixture
def port(operations: FakeOperations) -> Iterator[int]:
    stories = stories_service(ToldLog([ended()]), operations)
    info = {"instance": "shop-1"}
    with admin_door(operations, {}, info=info, stories=stories, system=Shop(info)) as found:
        yield found


async def on(seen: Seen, page: str) -> None:
    number = list(pages.TITLES).index(page) + 1
    await seen.press(str(number))
    await seen.until(lambda: seen.app._look is not None and seen.app._look.wish.page == page)


# -- looking -------------------------------------------------------------------------------------


async def test_every_page_fits_a_small_terminal(port: int) -> None:
    async with top(port) as seen:
        await seen.until("Oldest undecided")
        for wanted in ("halfhitch shop-1", "State          ready", "Undecided      2", "Parked"):
            assert wanted in seen.text
        await seen.until("prepared")
        for page, wanted in (
            ("transactions", "no producer"), ("parked", "P1"), ("groups", "vm-1, vm-2"),
            ("partitions", "working"),
        ):  # fmt: skip
            await on(seen, page)
            await seen.until(wanted)
            await seen.until("? Keys / Filter")
            assert len(seen.lines) == 24
            assert max(map(len, seen.lines)) <= 80


@pytest.mark.parametrize("colours", ["terminal", "dark", "light"])
async def test_it_is_read_on_dark_and_light(colours: str, port: int) -> None:
    async with top(port, colours=colours) as seen:
        await seen.until("Oldest undecided")
        await seen.press("d")
        await seen.until(lambda: seen.app.theme != f"textual-{colours}")
        await on(seen, "transactions")
        await seen.until("T1")


async def test_without_colour_there_is_none(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with top(port, colours="dark") as seen:
        await on(seen, "transactions")
        await seen.until("no producer")
        await seen.press("d", "question_mark")
        await seen.until("Leave")
        for strip in seen.app.screen._compositor.render_strips():
            for segment in strip.apply_filter(
                seen.app._filters[-1], seen.app.screen.background_colors[1]
            ):
                style = segment.style
                assert style is None or style.color is None or style.color.is_default
                assert style is None or style.bgcolor is None or style.bgcolor.is_default


async def test_the_keys_are_shown_and_lead_about(port: int) -> None:
    async with top(port) as seen:
        await seen.press("question_mark")
        await seen.until("Keys")
        for _, does in (("q", "Leave"), ("/", "Filter"), ("p", "Pause")):
            assert does in seen.text
        await seen.press("escape")
        await on(seen, "groups")
        await seen.until("bank")
        await seen.press("enter")
        await seen.until("filter: group=bank")
        await seen.until("T2")
        assert "T1" not in seen.text


async def test_a_list_is_sorted_turned_and_filtered(port: int) -> None:
    async with top(port) as seen:
        await on(seen, "transactions")
        await seen.until("T1")

        def order() -> list[str]:
            return [name for _, name in seen.app.query_one(Listing).keys]

        assert order() == ["T2", "T1"]
        await seen.press("S")
        await seen.until("by age, reversed")
        assert order() == ["T1", "T2"]
        await seen.press("s", "s")
        await seen.until("by next check")
        assert order() == ["T2", "T1"]
        await seen.press("slash")
        await seen.write("gruop=bank")
        await seen.press("enter")
        await seen.until("'gruop=bank' is none of")
        await seen.press(*["backspace"] * 10)
        await seen.write("group=bank older=10m")
        await seen.press("enter")
        await seen.until("filter: group=bank older=10m")
        await seen.until(lambda: order() == ["T2"])
        await seen.press("slash")
        await seen.until("Enter shows what matches")
        await seen.press("escape")
        assert "filter: group=bank" in seen.text


async def test_a_story_is_opened_and_holds_no_message_until_asked(
    port: int, operations: FakeOperations
) -> None:
    async with top(port) as seen:
        await on(seen, "parked")
        await seen.until("P1")
        await seen.press("enter")
        await seen.until("P1 of group shop")
        assert "secret" not in seen.text
        await seen.press("v")
        await seen.until("secret")
        await seen.press("r")
        await seen.press("escape")
        await seen.until("1  by age")


async def test_a_pause_holds_and_a_look_is_taken_all_the_same(
    port: int, operations: FakeOperations
) -> None:
    async with top(port) as seen:
        await on(seen, "transactions")
        await seen.until("T1")
        await seen.press("p")
        await seen.until("paused, seen")
        await seen.pilot.pause(0.3)
        operations.pending.append(undecided("T3"))
        await seen.pilot.pause(0.3)
        assert "T3" not in seen.text
        await seen.press("r")
        await seen.until("T3")
        await seen.press("p")
        operations.pending.append(undecided("T4"))
        await seen.until("T4")


# -- trouble -------------------------------------------------------------------------------------


async def test_a_door_that_goes_and_comes_back_is_told_in_words(operations: FakeOperations) -> None:
    with admin_door(operations, {}, info={"instance": "shop-1"}) as port:
        async with top(port, size=(100, 30)) as seen:
            await on(seen, "transactions")
            await seen.until("T1")
            seen.app._door.client._port = 1  # the looking thread's too
            await seen.until("No sidecar answers on")
            assert "T1" in seen.text
            assert "What is shown is of" in seen.text
            assert "it is asked again" in " ".join(seen.text.split())
            seen.app._door.client._port = port
            await seen.until("The sidecar answers again")
            await seen.until(lambda: "No sidecar answers on" not in seen.text)


async def test_an_empty_page_said_how_old_what_it_shows_is(operations: FakeOperations) -> None:
    with admin_door(operations, {}, info={"instance": "shop-1"}) as port:
        async with top(port, size=(100, 30)) as seen:
            await on(seen, "transactions")
            await seen.until("T1")
            seen.app._door.client._port = 1
            await seen.until("What is shown is of")
            await seen.press("3")
            await seen.until(lambda: "What is shown is of" not in seen.text)
            assert "No sidecar answers on" in seen.text
            seen.app._door.client._port = port
            await seen.until("The sidecar answers again")
            await seen.until("P1")


async def test_nobody_at_the_beginning_is_no_end() -> None:
    async with top(1) as seen:
        await seen.until("No sidecar answers on")
        await seen.press("2", "j", "k", "enter", "s", "S", "right_square_bracket", "slash")
        await seen.until("Filter")
        await seen.press("escape")
        await seen.until("2 Undecided")


async def test_a_door_that_hangs_is_told_before_the_answer(
    port: int, operations: FakeOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with top(port) as seen:
        await seen.until("Oldest undecided")
        monkeypatch.setattr(seen.app._looking, "_asking_since_s", time.monotonic() - 12.0)
        monkeypatch.setattr(type(seen.app._looking), "asking_s", 12.0)
        await seen.until("has not answered for 12s")


async def test_a_wrong_token_is_said(operations: FakeOperations) -> None:
    with admin_door(operations, {}, access=identities.access()) as port:
        async with top(port, "wrong-token-wrong-token") as seen:
            await seen.until("asks for a token")


async def test_who_may_only_look_is_told(operations: FakeOperations) -> None:
    with admin_door(operations, {}, access=identities.access()) as port:
        async with top(port, identities.WATCHER, size=(100, 30)) as seen:
            await seen.until("watcher  read-only")
        async with top(port, identities.KEEPER, size=(100, 30)) as seen:
            await seen.until("keeper")
            assert "read-only" not in seen.text


# -- what it cannot be made to do ----------------------------------------------------------------


@pytest.mark.parametrize("size", [SMALL, (200, 60), (30, 8)])
async def test_nothing_that_is_shown_is_obeyed(size: tuple[int, int]) -> None:
    pending = [
        undecided(text, group=text, topics=(text,), asked=text, last_reason=text, last_answer=text)
        for text in HOSTILE
    ]
    given_up = [
        parked(text, group=text, topics=(text,), detail=text, reason=text) for text in HOSTILE
    ]
    log = ToldLog([ended(HOSTILE[0], reason=HOSTILE[1], source=HOSTILE[2], why=HOSTILE[0])])
    operations = FakeOperations(pending, given_up)
    stories = stories_service(log, operations)
    info = {"instance": HOSTILE[0] + HOSTILE[4]}
    with admin_door(operations, {}, info=info, stories=stories) as port:
        async with top(port, size=size) as seen:
            await seen.until("halfhitch")
            for page in ("overview", "transactions", "parked", "groups"):
                await on(seen, page)
                await seen.pilot.pause(0.1)
                assert not set(seen.text) & set("\x1b\x07\x9b\u202e\u2028\r")
                if size == SMALL and page in ("transactions", "parked"):
                    for _ in HOSTILE:
                        await seen.press("enter")
                        await seen.pilot.pause(0.05)
                        assert not set(seen.text) & set("\x1b\x07\x9b\u202e\u2028\r")
                        await seen.press("escape", "j")
            if size[0] >= 80:
                await on(seen, "transactions")
                await seen.until("[red]x[/red]")
            assert seen.app.is_running


async def test_a_hundred_thousand_are_a_bounded_list_with_pages() -> None:
    operations = FakeOperations([undecided(f"order-{number:06}") for number in range(100_000)])
    with admin_door(operations, {}) as port:
        async with top(port, size=(100, 30)) as seen:
            await on(seen, "transactions")
            await seen.until("1 to 500 of 100,000, the oldest first")
            assert len(seen.app.query_one(Listing).keys) == 500
            began_s = time.monotonic()
            await seen.press("j", "j", "j")
            assert time.monotonic() - began_s < 5
            await seen.press("right_square_bracket")
            await seen.until("501 to 1,000 of 100,000")
            await seen.until("order-000500")
            await seen.press("left_square_bracket")
            await seen.until("1 to 500 of")
            await seen.press("left_square_bracket")
            for _ in range(19):
                seen.app.action_turn_page(1)
            await seen.until("9,501 to 10,000 of 100,000")
            await seen.press("right_square_bracket")
            await seen.until("choose fewer with a filter")
