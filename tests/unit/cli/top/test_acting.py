"""Actions from the screen: a reason, a dry run, the doing; nothing sooner, and nothing twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch.errors import TransactionNotFound
from halfhitch_cli.top.listing import Listing
from harness import identities
from harness.admin_door import admin_door
from harness.fake_operations import FakeOperations, parked, undecided
from harness.terminal import Seen, top

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = (80, 24)


@pytest.fixture
def operations() -> FakeOperations:
    pending = [undecided("T1"), undecided("T2", age_s=80.0), undecided("B1", "bank", age_s=60.0)]
    return FakeOperations(pending, [parked("P1")], forgets=True)


@pytest.fixture
def port(operations: FakeOperations) -> Iterator[int]:
    with admin_door(operations, {}) as found:
        yield found


async def reason(seen: Seen, text: str = "ticket 7") -> None:
    await seen.until("the reason; it is kept")
    await seen.write(text)
    await seen.press("enter")


async def do(seen: Seen, label: str) -> None:
    await seen.until("Nothing was done yet.")
    assert label in seen.text
    await seen.pilot.click("#do")


async def test_one_is_rolled_back_after_its_dry_run(port: int, operations: FakeOperations) -> None:
    async with top(port, size=SIZE) as seen:
        await seen.press("2")
        await seen.until("T1")
        await seen.press("b")
        await seen.until("Roll back 1 transaction")
        await reason(seen)
        await seen.until("1 transaction of group shop would be rolled back:")
        assert operations.done() == []
        await do(seen, "Roll back 1")
        await seen.until("1 rolled back.")
        ((name, group, transaction_id, why, _),) = operations.done()
        assert (name, group, transaction_id, why) == ("rollback", "shop", "T1", "ticket 7")
        await seen.press("enter")  # Close
        await seen.until(lambda: len(seen.app.screen_stack) == 1)


async def test_a_second_enter_does_nothing(port: int, operations: FakeOperations) -> None:
    async with top(port, size=SIZE) as seen:
        await seen.press("2")
        await seen.until("T1")
        await seen.press("c")
        await reason(seen)
        await seen.until("Nothing was done yet.")
        await seen.until_focus("close")
        await seen.press("enter")
        await seen.until("3  by age")
        assert operations.done() == []


async def test_without_a_reason_there_is_no_dry_run(port: int, operations: FakeOperations) -> None:
    async with top(port, size=SIZE) as seen:
        await seen.press("2")
        await seen.until("T1")
        await seen.press("c")
        await reason(seen, "")
        await seen.until("--reason takes 1 to 200 printable characters")
        await seen.pilot.click("#do")
        await seen.press("escape")
        assert operations.done() == []


async def test_a_changed_reason_wants_a_dry_run_of_its_own(
    port: int, operations: FakeOperations
) -> None:
    async with top(port, size=SIZE) as seen:
        await seen.press("2")
        await seen.until("T1")
        await seen.press("b")
        await reason(seen)
        await seen.until("Nothing was done yet.")
        await seen.until_focus("close")  # or it goes there after the click
        await seen.pilot.click("#reason")
        await seen.until_focus("reason")
        await seen.write("x")
        await seen.until(lambda: "Nothing was done yet." not in seen.text)
        await seen.pilot.click("#do")
        assert operations.done() == []
        await seen.press("escape")


async def test_the_marked_ones_and_all_that_match(port: int, operations: FakeOperations) -> None:
    operations.fails["T2"] = TransactionNotFound("it was [red]committed")
    async with top(port, size=SIZE) as seen:
        await seen.press("2")
        await seen.until("T1")
        await seen.press("x", "x", "x", "k", "k", "x")
        await seen.until("2 marked")
        await seen.press("escape")
        await seen.until(lambda: "marked" not in seen.text)
        await seen.press("x", "k", "k", "k", "x")
        await seen.until("marked")
        await seen.press("C")
        await seen.until("Commit all that match no filter at all")
        await reason(seen)
        await seen.until("would take all groups")
        await seen.press("escape", "slash")
        await seen.write("group=shop")
        await seen.press("enter")
        await seen.until("2  by age")
        await seen.press("C")
        await seen.until("all that match group=shop")
        await reason(seen)
        await do(seen, "Commit 2")
        await seen.until("1 committed.")
        await seen.until("T2  shop: it was [red]committed")
        assert [call[:3] for call in operations.done()] == [
            ("commit", "shop", "T1"), ("commit", "shop", "T2"),
        ]  # fmt: skip


async def test_what_is_parked_is_resumed(port: int, operations: FakeOperations) -> None:
    async with top(port, size=SIZE) as seen:
        await seen.press("3")
        await seen.until("P1")
        await seen.press("c", "b", "n")  # nothing of what is undecided
        await seen.press("u")
        await reason(seen)
        await do(seen, "Resume 1")
        await seen.until("1 resumed.")
        assert [call[:3] for call in operations.done()] == [("resume", "shop", "P1")]


async def test_who_may_only_look_is_offered_nothing(operations: FakeOperations) -> None:
    with admin_door(operations, {}, access=identities.access()) as port:
        async with top(port, identities.WATCHER, size=(100, 30)) as seen:
            await seen.press("2")
            await seen.until("T1")
            await seen.press("c", "b", "n", "u", "C", "x")
            assert "Commit" not in seen.text
            assert "marked" not in seen.text
            assert len(seen.app.screen_stack) == 1


async def test_a_stranger_s_transactions_are_left_out(operations: FakeOperations) -> None:
    operations.pending.append(undecided("B2", "bank"))
    with admin_door(operations, {}, access=identities.access()) as port:
        async with top(port, identities.KEEPER, size=SIZE) as seen:
            await seen.press("2")
            await seen.until("T1")
            assert len(seen.app.query_one(Listing).keys) == 2
            await seen.press("b")
            await seen.until("Signed by identity keeper.")
            await reason(seen)
            await do(seen, "Roll back 1")
            await seen.until("1 rolled back.")
            assert operations.done()[0][1:3] == ("shop", "T1")
