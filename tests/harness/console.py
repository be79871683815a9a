"""The console's page at a real admin door, for a browser."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from harness.admin_door import admin_door
from harness.told import ToldLog, stories_service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.chromium import Browser
    from harness.fake_operations import FakeOperations


@contextmanager
def console(
    browser: Browser, operations: FakeOperations, log: ToldLog | None = None, **more: Any
) -> Iterator[str]:
    """The address of its page, opened by nobody yet; the browser knows nothing of tests before."""
    stories = stories_service(log or ToldLog(), operations)
    with admin_door(operations, {}, stories=stories, **more) as port:
        browser.complaints()
        yield f"http://127.0.0.1:{port}/console"
        # A promise of every test: no policy was needed to stop anything, and nothing was refused
        # that the test has not asked for.
        told = [line for line in browser.complaints() if "Failed to load resource" not in line]
        assert told == []
