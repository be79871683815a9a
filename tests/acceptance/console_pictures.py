"""Makes the pictures of docs/console.md: `make pictures`, with Chromium and its driver from Debian.

The console is the shipped one, on a real admin door; what it shows is given here, so that the
pictures differ only where the console does (and in the hour of the last look).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from halfhitch.service.api import ParkedMessage, PartitionPhase, PartitionState
from harness.admin_door import QuietSystem, admin_door
from harness.chromium import chromium
from harness.fake_operations import FakeOperations, parked, undecided
from harness.told import BEGAN_MS, ToldLog, answered, asked, ended, stories_service

if TYPE_CHECKING:
    from harness.chromium import Browser

PICTURES: Final = Path(__file__).resolve().parents[2] / "docs" / "pictures"
_SIZE: Final = (1240, 800)


class Shop(QuietSystem):
    """One instance of a shop's, whose accounts department is away."""

    def partitions(self) -> list[Any]:
        rows = []
        for number, count in enumerate((68, 71, 61, 0)):
            state = PartitionState(
                number, PartitionPhase.WORKING, count, 0, 0, 5, 90_210 + number, 90_310 + number,
                88_004, 88_120, None,
            )  # fmt: skip
            state.oldest_age_s, state.due_count = 1_300.0 - number, count // 4
            rows.append(state)
        rows[1].waiting_by_topic = {"invoices": 12}
        rows[1].waiting_count = 12
        return rows


def operations() -> FakeOperations:
    nobody: dict[str, Any] = {"next_check_s": None, "last_answer": "lost", "asked": "bank-7f9c"}
    pending = [
        undecided(
            f"order-{4_711 + number}", "bank" if number % 3 == 0 else "shop",
            age_s=1_300.0 - 6 * number, topics=("orders",) if number % 2 else ("orders", "points"),
            message_count=1 + number % 2, check_count=7 - number // 30, partition=number % 3,
            **(nobody if number % 3 == 0 else {"asked": f"shop-{number % 2 + 1}"}),
        )
        for number in range(200)
    ]  # fmt: skip
    away = "topic invoices does not exist any more"
    given_up = [
        parked(
            f"invoice-{number}", "bank", topics=("invoices",), reason="undeliverable", detail=away,
            decision="commit", decision_source="producer", parked_ms=BEGAN_MS + 9_000 * number,
        )
        for number in range(3)
    ]  # fmt: skip
    headers: list[tuple[str, bytes | None]] = [("trace-id", b"9f3c"), ("note", b"<b>urgent</b>")]
    message = ParkedMessage("invoices", None, b"customer-7", b'{"amount": 25}', headers)
    return FakeOperations(pending, given_up, [message])


def log() -> ToldLog:
    return ToldLog(
        [
            asked("order-4650", after_ms=2_000),
            answered("order-4650", after_ms=2_480, reason="the payment is still open"),
            asked("order-4650", 2, 8_000),
            answered(
                "order-4650", 2, 8_210, outcome="commit", took_ms=210,
                reason="the barrier has the row",
            ),
            ended("order-4650", source="check", decided_ms=BEGAN_MS + 8_300, check_count=2),
            ended("order-4651"),
            ended("order-4652", ending=0, source="operator", reason="alice: paid twice, ticket 91"),
        ]
    )  # fmt: skip


def _taken(browser: Browser, name: str) -> None:
    (PICTURES / f"{name}.png").write_bytes(browser.picture())


def _dark(browser: Browser, wanted: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": wanted}]
    browser.devtools("Emulation.setEmulatedMedia", features=features)


def main() -> int:
    """Every picture anew."""
    PICTURES.mkdir(exist_ok=True)
    given = operations()
    info = {"version": "1", "instance": "shop-1", "kafka_cluster": "4L6g3nShT-eMCtK--X86sw"}
    stories = stories_service(log(), given)
    with (
        admin_door(given, {}, info=info, stories=stories, system=Shop(info)) as port,
        chromium("--lang=en") as browser,
    ):
        page = f"http://127.0.0.1:{port}/console"
        browser.size(*_SIZE)
        browser.go(page)
        browser.wait_text("order-4652")
        _taken(browser, "console-overview")
        browser.go(f"{page}#transactions?group=bank&older=10m")
        browser.wait_text("1 to 50 of")
        browser.press("jxjx")
        _taken(browser, "console-transactions")
        browser.go(f"{page}#trace?id=order-4650")
        browser.click("Show its messages on their topics")
        browser.wait_text("orders/2@17")
        _taken(browser, "console-trace")
        browser.go(f"{page}#transactions?group=bank")
        browser.click("Roll back all 67…")
        browser.fill("reason", "the bank's machine is gone, ticket 92")
        browser.fill("operator", "alice")
        browser.click("Show what would be done")
        browser.wait_text("Nothing was done yet")
        _taken(browser, "console-dry-run")
        browser.go("about:blank")
        _dark(browser, "dark")
        browser.go(f"{page}#trace?id=invoice-1")
        browser.click("Show its messages")
        browser.wait_text("urgent", ".message")
        _taken(browser, "console-parked-dark")
    return 0


if __name__ == "__main__":
    sys.exit(main())
