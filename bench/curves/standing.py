"""Curves of what lies there when an owner begins: undecided transactions, and a long log."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from bench import stage, usage
from bench.beside_raw import fast_path
from bench.curves.measuring import idle_percent
from bench.curves.points import Point, busiest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.children import Child
    from bench.curves.plan import Plan
    from bench.director import Director

_CALLERS: Final = 64
_BODY_BYTES: Final = 100
_IDLE_S: Final = 5.0
#: A load is cut so that each order is answered in good time.
_AT_ONCE_MAX: Final = 100_000
_RAISED: Final = {
    "HALFHITCH_LIMITS_UNDECIDED_MAX": "2000000",
    "HALFHITCH_LIMITS_UNDECIDED_GROUP_MAX": "2000000",
    "HALFHITCH_CHECKS_IMMUNITY_S": "86400",  # nobody is asked while this runs
    "HALFHITCH_DRAIN_S_MAX": "1",
}


def undecided(director: Director, plan: Plan) -> list[Point]:
    """More and more are prepared and left; after each step another owner takes over."""
    return _grown(director, plan, "undecided")


def replay(director: Director, plan: Plan) -> list[Point]:
    """More and more are committed behind an undecided one; then another owner takes over."""
    return _grown(director, plan, "replay")


def _grown(director: Director, plan: Plan, name: str) -> list[Point]:
    found: list[Point] = []
    with ExitStack() as stack:
        load = stack.enter_context(director.child("load_http", director.arguments()))
        with _sidecar(director, name) as (sidecar, _):
            empty_mib = usage.rss_mib(sidecar.pid)[0]
            if name == "replay":
                _leave(director, sidecar, load, 1)
        stored_count = 0
        for place in plan.places[name]:
            with _sidecar(director, name) as (sidecar, _):
                if name == "undecided":
                    _leave(director, sidecar, load, int(place) - stored_count)
                    stored_count = int(place)
                else:
                    stored_count += _commit(director, sidecar, load, int(place) - stored_count)
                filled_mib = usage.rss_mib(sidecar.pid)[0]
            with _sidecar(director, name) as (sidecar, ready_s):
                point = _looked_at(sidecar, stored_count, empty_mib, ready_s)
                point.values["filled_mib"] = filled_mib
            found.append(point)
            shown = ", ".join(f"{what} {value:,.2f}" for what, value in point.values.items())
            director.say(f"{name} {point.at:,.0f}: {shown}; {point.threads}")
    return found


@contextmanager
def _sidecar(director: Director, name: str) -> Iterator[tuple[stage.Sidecar, float]]:
    began_s = time.monotonic()
    with stage.Sidecar(
        director.kafka.bootstrap, director.folder, f"{name}-", **fast_path(), **_RAISED
    ) as sidecar:
        yield sidecar, time.monotonic() - began_s


def _looked_at(sidecar: stage.Sidecar, at: float, empty_mib: float, ready_s: float) -> Point:
    threads_s = usage.thread_cpu_s(sidecar.pid)
    cpu_s = usage.exact_cpu_s(sidecar.pid)
    counts = sidecar.counts()
    now_mib, peak_mib = usage.rss_mib(sidecar.pid)
    records = counts["halfhitch_replayed_records_total"]
    values = {
        "ready_s": ready_s,
        # Half partitions are taken over side by side: the mean of them, not their sum.
        "takeover_s": counts["halfhitch_replay_seconds_sum"]
        / (counts["halfhitch_replay_seconds_count"] or 1),
        "records": records,
        "start_cpu_s": cpu_s,
        "sidecar_mib": now_mib,
        "peak_mib": peak_mib,
        "each_bytes": (now_mib - empty_mib) * 2**20 / at,
        "idle_percent": idle_percent(sidecar, _IDLE_S),
    }
    return Point(at, values, busiest({"sidecar": threads_s}))


def _leave(director: Director, sidecar: stage.Sidecar, load: Child, count: int) -> None:
    while count > 0:
        part = min(count, _AT_ONCE_MAX)
        _order(director, sidecar, load, min(_CALLERS, part), 1.0, leave_count=part)
        count -= part


def _commit(director: Director, sidecar: stage.Sidecar, load: Child, count: int) -> int:
    done = 0
    while done < count:
        order, answer = _order(director, sidecar, load, _CALLERS, 2.0)
        director.arrivals(order["cell"], answer["count"])
        done += answer["count"]
    return done


def _order(
    director: Director,
    sidecar: stage.Sidecar,
    load: Child,
    callers: int,
    seconds: float,
    **more: Any,
) -> tuple[dict[str, Any], dict[str, Any]]:
    order = {**director.closed_loop(callers, seconds), "keyed": True, **more}
    place = {"address": sidecar.address("unix"), "body_bytes": _BODY_BYTES}
    return order, load.order({**order, **place})
