"""The console in a real browser shows what happens when it happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from halfhitch.service.api import PartitionPhase, PartitionState
from harness.admin_door import QuietSystem
from harness.console import console
from harness.fake_operations import FakeOperations, undecided

if TYPE_CHECKING:
    from harness.chromium import Browser

#: How long the page has waited for a change each time, in milliseconds.
WAITED = (
    "return performance.getEntriesByType('resource')"
    ".filter((one) => one.name.includes('/v1/changes')).map((one) => one.duration)"
)


class Shop(QuietSystem):
    """Owns one half partition."""

    position = 7

    def partitions(self) -> list[Any]:
        return [PartitionState(0, PartitionPhase.WORKING, 1, 0, 0, 0, 0, self.position, 0, 0, None)]


def test_what_happens_is_shown_at_once_and_not_only_at_the_next_look(browser: Browser) -> None:
    operations, shop = FakeOperations([undecided("first")]), Shop()
    with console(browser, operations, system=shop) as address:
        browser.go(f"{address}#transactions")
        browser.wait_text("first")
        quiet = f"const waited = (() => {{ {WAITED} }})(); return waited.some((ms) => ms > 2000)"
        browser.wait(quiet, what="a wait in which nothing has happened")
        operations.pending.append(undecided("second"))
        shop.position += 1
        count = len(browser.run(WAITED))
        browser.wait_text("second")
        waited = browser.run(WAITED)
        assert len(waited) == count + 1
        assert waited[-1] < max(waited) / 2


def test_a_door_of_an_older_release_is_looked_at_as_before(browser: Browser) -> None:
    operations = FakeOperations([undecided("first")])
    with console(browser, operations) as address:
        browser.go(f"{address}#transactions")
        browser.wait_text("first")
        browser.run(
            "const fetched = window.fetch; window.fetch = (what, how) =>"
            " String(what).includes('/v1/changes') ? Promise.resolve(new Response("
            '\'{"error": {"code": "not_found"}}\', {status: 404})) : fetched(what, how)'
        )
        operations.pending.append(undecided("second"))
        browser.wait_text("second")
        operations.pending.append(undecided("third"))
        browser.wait_text("third")
