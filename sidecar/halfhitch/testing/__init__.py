"""For the tests of programs that use Half Hitch: a coordinator in memory, and real ones.

    from halfhitch.testing import MemoryCoordinator

    with MemoryCoordinator(topics={"orders": 1}) as coordinator:
        shop = Shop(coordinator.address)  # the program under test, with its own producer
        with coordinator.crash_after_local_commit(), pytest.raises(SimulatedCrash):
            shop.order("book")
        assert coordinator.messages("orders") == []
        coordinator.advance(30)  # the check comes, and the shop's database has the row
        assert [message.value for message in coordinator.messages("orders")] == [b"book"]

pytest finds the fixtures by itself (see plugin.py). docs/testing.md has whole tests.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from halfhitch.testing.container import HalfHitchContainer
    from halfhitch.testing.coordinator import AskedCheck, DeliveredMessage, MemoryCoordinator
    from halfhitch.testing.mishaps import SimulatedCrash
    from halfhitch.testing.sidecar import RunningSidecar

__all__ = [
    "AskedCheck",
    "DeliveredMessage",
    "HalfHitchContainer",
    "MemoryCoordinator",
    "RunningSidecar",
    "SimulatedCrash",
]

_MODULE_OF = {
    "AskedCheck": "coordinator",
    "DeliveredMessage": "coordinator",
    "HalfHitchContainer": "container",
    "MemoryCoordinator": "coordinator",
    "RunningSidecar": "sidecar",
    "SimulatedCrash": "mishaps",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'halfhitch.testing' has no attribute {name!r}")
    from importlib import import_module

    from halfhitch.extras import missing

    try:
        module = import_module(f"halfhitch.testing.{_MODULE_OF[name]}")
    except ImportError as error:
        told = missing("halfhitch.testing", error)
        if told is None:
            raise
        raise told from None
    return getattr(module, name)
