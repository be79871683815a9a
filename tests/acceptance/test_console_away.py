"""The console while something is away, empty or too much: what can be shown is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from halfhitch.errors import KafkaUnavailable
from halfhitch.service.api import NamesPage, UndecidedPage
from harness.admin_door import QuietSystem
from harness.console import console
from harness.fake_operations import FakeOperations, undecided
from harness.told import ToldLog

if TYPE_CHECKING:
    from halfhitch.service.api import Filter
    from harness.chromium import Browser

MILLION = 1_000_000


class _NoKafka(FakeOperations):
    is_away = True

    async def parked(self, wanted: Filter) -> Any:
        if self.is_away:
            raise KafkaUnavailable("the parked topic cannot be read; try again")
        return await super().parked(wanted)


class _NoTopic(ToldLog):
    async def latest(self, search: Any) -> Any:
        raise KafkaUnavailable("the audit topic cannot be read; try again")


class _Nobody(QuietSystem):
    def producers(self) -> list[Any]:
        return []


def test_without_kafka_all_that_is_known_is_shown_and_the_rest_is_told(browser: Browser) -> None:
    operations = _NoKafka([undecided("order-1")])
    with console(browser, operations, _NoTopic()) as address:
        browser.go(f"{address}#overview")
        browser.wait_text("the parked topic cannot be read", ".troubles")
        browser.wait_text("the audit topic cannot be read", ".troubles")
        assert "order-1" in browser.text("#body")
        browser.go(f"{address}#parked")
        browser.wait_text("the parked topic cannot be read", "#trouble")
        operations.is_away = False
        browser.press("r")
        browser.wait_text("Nothing that matches is parked.")
        browser.wait("return document.querySelector('#trouble').innerText === ''")


def test_without_redis_it_is_said_whose_are_missing(browser: Browser) -> None:
    operations = FakeOperations([undecided("order-1")], missing_partitions=[3, 5])
    with console(browser, operations) as address:
        for view in ("overview", "transactions"):
            browser.go(f"{address}#{view}")
            browser.wait_text("half partitions 3, 5 are other instances'")
            assert "order-1" in browser.text("#body")
        browser.click("Roll back all 1…")
        browser.fill("reason", "gone")
        browser.fill("operator", "alice")
        browser.click("Show what would be done")
        browser.wait_text("Half partitions 3, 5 of other instances could not be looked", "dialog")


def test_where_nothing_is_every_view_says_so(browser: Browser) -> None:
    with console(browser, FakeOperations(), system=_Nobody()) as address:
        for view, told in (
            ("overview", "Nothing is undecided."),
            ("transactions", "Nothing that matches is undecided."),
            ("transactions?state=ended", "Nothing has ended in this time that is kept."),
            ("parked", "Nothing that matches is parked."),
            ("producers", "No producer that answers checks is connected"),
            ("partitions", "This instance owns no half partition."),
            ("trace", "Name a transaction by its id"),
            ("trace?id=nobody", "Nothing is known of it."),
        ):
            browser.go(f"{address}#{view}")
            browser.wait_text(told)
            assert browser.text("#trouble") == ""


class _Million(FakeOperations):
    """Pages of what is too much to be given at once."""

    async def undecided(self, wanted: Filter) -> UndecidedPage:
        count = min(MILLION, wanted.count_max)
        return UndecidedPage([undecided(f"order-{n}") for n in range(count)], MILLION, [])

    async def names(self, wanted: Filter) -> NamesPage:
        names: Any = [("shop", f"order-{n}") for n in range(min(MILLION, wanted.count_max))]
        return NamesPage(names, MILLION, [])


def test_of_a_million_a_page_is_shown_and_no_more_is_agreed_to_than_is_named(
    browser: Browser,
) -> None:
    with console(browser, _Million()) as address:
        browser.go(f"{address}#transactions")
        browser.wait_text("1 to 50 of 1,000,000")
        assert browser.run("return document.querySelectorAll('#body tbody tr').length") == 50
        browser.press("]")
        browser.wait_text("51 to 100 of 1,000,000")
        browser.go(f"{address}#transactions?skip=999950")
        browser.wait_text("The pages end here")
        browser.go(f"{address}#transactions")
        browser.click("Roll back all 1,000,000…")
        browser.fill("reason", "gone")
        browser.fill("operator", "alice")
        browser.click("Show what would be done")
        browser.wait_text("200,000 transactions of group shop would be rolled back", "dialog")
        browser.wait_text("800,000 match and cannot be reached at once", "dialog")
        browser.click("Close")
