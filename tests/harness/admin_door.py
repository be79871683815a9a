"""A real admin door over fake operations, on a thread of its own: what commands talk to."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from halfhitch.doors.admin import AdminDoor
from halfhitch.observability.metrics import Metrics
from halfhitch.service.api import ProducersState
from harness.identities import access_with

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from halfhitch.access import Access
    from halfhitch.doors.admin.stories import Stories
    from halfhitch.doors.tls import ServerTls
    from halfhitch.service.api import System
    from harness.fake_operations import FakeOperations


class QuietSystem:
    """service.api.System of an instance that owns nothing."""

    def __init__(self, info: Mapping[str, Any] | None = None) -> None:
        self._info = dict(info or {})

    def degraded_reasons(self) -> list[str]:
        return []

    def unready_reasons(self) -> list[str]:
        return []

    def partitions(self) -> list[Any]:
        return []

    def producers(self) -> list[ProducersState]:
        return [
            ProducersState("shop", ("vm-1", "vm-2"), 2, ("node-2",), 1, 3, "closed", 4),
            ProducersState("bank", (), 0, (), 0, 0, "open", 7),
        ]

    def info(self) -> dict[str, Any]:
        return self._info


@contextmanager
def admin_door(
    operations: FakeOperations,
    settings: Mapping[str, object],
    *,
    info: Mapping[str, Any] | None = None,
    tokens: Sequence[str] = (),
    tls: ServerTls | None = None,
    stories: Stories | None = None,
    access: Access | None = None,
    system: System | None = None,
) -> Iterator[int]:
    """The port. `settings` are what /v1/config shows, `info` is part of /v1/status."""
    view = [{"key": key, "value": value} for key, value in settings.items()]
    door = AdminDoor(
        system or QuietSystem(info),
        Metrics(),
        view,
        "127.0.0.1",
        0,
        access=access or access_with(*tokens),
        operations=operations,
        stories=stories,
        tls=tls,
    )
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(door.start(), loop).result(10)
        yield door.port
        asyncio.run_coroutine_threadsafe(door.stop(), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
