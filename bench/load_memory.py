"""What one undecided transaction takes in a ledger: nothing else lives in this process.

Halves are read as an owner reads them, from the headers of a record, in turns between which time
passes; then all of them have outlived the first second, and sleep or wait. No payloads.
"""

from __future__ import annotations

import gc
import os
import time
from array import array
from pathlib import Path

from bench.children import Order, obey, run
from halfhitch.composition import engine_options
from halfhitch.config import Settings
from halfhitch.core.ledger import Ledger
from halfhitch.core.model import HalfRead
from halfhitch.wire import half

_TURN_COUNT = 100
_TURN_MS = 10
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def fill(count: int) -> Order:
    """A ledger with so many pending."""
    rules = engine_options(Settings()).owner_limits.check_rules
    ledger = Ledger(
        half_position=0, op_position=0, horizon_ms=900_000, finished_max=200_000, rules=rules
    )
    headers = half.system_headers(half.HalfRecord("", "bench", 0, 0, "bench", "bench-target"))
    now_ms = 1_700_000_000_000
    ledger.tick(now_ms)
    _pass(ledger)
    stored_ms = array("q")
    gc.collect()
    before_bytes, began_s = _rss_bytes(), time.monotonic()
    for number in range(count):
        if number % _TURN_COUNT == 0:
            now_ms += _TURN_MS
            ledger.tick(now_ms)
            _pass(ledger)
            stored_ms = array("q", [now_ms])
        # An id as the coordinator makes them, 32 digits; numbers of its own, as a record brings.
        headers[1] = ("UNIQ_KEY", b"%032x" % number)
        event = half.read_identity(number, stored_ms[0], 1_000 + number % 1_000, headers)
        assert isinstance(event, HalfRead)
        ledger.half(event)
    while ledger.checks.asleep_count < count:
        now_ms += 1_000
        ledger.tick(now_ms)
        ledger.checks.changed.clear()
    filled_s = time.monotonic() - began_s
    gc.collect()
    now_bytes = _rss_bytes()
    began_s = time.monotonic()
    gc.collect()
    return {
        "count": ledger.counts[0],
        "each_bytes": (now_bytes - before_bytes) / count,
        "rss_mib": now_bytes / 2**20,
        "filled_s": filled_s,
        "collected_s": time.monotonic() - began_s,
    }


def _pass(ledger: Ledger) -> None:
    """What an owner does in a turn, with nobody to be asked."""
    ledger.checks.demand()
    ledger.plan(message_count_max=1_000, bytes_max=4_000_000, rooms={})
    ledger.checks.changed.clear()


def _rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


async def carry_out(order: Order) -> Order:
    """`count`: see `fill`."""
    return fill(order["count"]) if "count" in order else {}


if __name__ == "__main__":
    run(lambda: obey(carry_out))
