"""Rows of the check-back: a storm of orphans, a hung group, how late checks are, what memory costs.

An orphan is a transaction that was prepared and left alone. Every other one is to be committed, and
has to be seen exactly once; the rest is rolled back, and must never be seen.
"""

from __future__ import annotations

import math
import os
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from bench import figures, rows, stage, usage
from bench.figures import Ratio, Spread
from halfhitch.embedded import EmbeddedRedis

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.children import Child
    from bench.director import Director
    from bench.rows import Row

MODES = ("drain", "hung", "lag", "memory")
_PREFIX = "checks-"
_WITHIN_S = 180.0
_AT_ONCE = [1, 1]  # immunity in seconds, from .. to: due before the producer comes back
_LONG = [86_400, 86_400]  # nothing is due while this runs
_DUE_S = 1.5  # after an immunity of one second all are due
_HUNG_PAIRS = 5
_LAG_CONCURRENCY = 4


def run(mode: str, director: Director) -> list[Row]:
    """All rows of a mode."""
    of_mode: dict[str, Callable[[Director], list[Row]]] = {
        "drain": _drain, "hung": _hung, "lag": _lag, "memory": _memory,
    }  # fmt: skip
    made = of_mode[mode](director)
    director.say(*[rows.line(row) for row in made])
    return made


# -- a storm -------------------------------------------------------------------------------------


def _drain(director: Director) -> list[Row]:
    """All orphans of a group whose producer comes back."""
    count = 2_000 if director.plan.is_quick else 10_000
    return [
        row for way in (_drained_in_process, _drained_over_http) for row in way(director, count)
    ]


def _drained_in_process(director: Director, count: int) -> list[Row]:
    with _engine(director, "storm-") as load:
        pids = {"sidecar": load.pid}
        _storm(director, load, pids, "in process", count // 5, {})  # Java compiles
        return [
            _storm(director, load, pids, "in process", count, {})
            for _ in range(director.plan.repeats)
        ]


def _drained_over_http(director: Director, count: int) -> list[Row]:
    with ExitStack() as stack:
        redis = stack.enter_context(EmbeddedRedis())
        sidecar = stack.enter_context(
            stage.Sidecar(
                director.kafka.bootstrap,
                director.folder,
                "storm-http-",
                HALFHITCH_REDIS_URL=redis.url,
                HALFHITCH_CHECKS_IMMUNITY_S="1",
            )
        )
        load = stack.enter_context(director.child("load_producers", {}))
        pids = {"sidecar": sidecar.pid, "client": load.pid}
        places = {"address": sidecar.address("unix"), "admin": sidecar.admin}
        name = "HTTP, Python client, Redis"
        _storm(director, load, pids, name, count // 5, places)
        return [
            _storm(director, load, pids, name, count, places) for _ in range(director.plan.repeats)
        ]


def _storm(
    director: Director,
    load: Child,
    pids: dict[str, int],
    name: str,
    count: int,
    more: dict[str, Any],
) -> Row:
    cell, order = _orphans(director, load, count, _AT_ONCE, more)
    time.sleep(_DUE_S)
    pids = {**pids, "broker": director.kafka.broker_pid()}
    began_s, before = time.monotonic(), usage.Usage.of(pids)
    answer = load.order({**order, "kind": "return", "within_s": _WITHIN_S})
    spent = usage.Usage.of(pids).since(before)
    elapsed_s = time.monotonic() - began_s
    arrived_at_s = director.arrivals(cell, (count + 1) // 2)
    decided_s = answer["decided_at_s"] - answer["started_s"]
    return {
        "kind": "drain",
        "mode": name,
        "transaction_count": count,
        "decided_s": decided_s,
        "visible_s": max(arrived_at_s) - answer["started_s"],
        "check_count": answer["check_count"],
        "checks_per_s": answer["check_count"] / decided_s,
        "repeated_count": answer["repeated_count"],
        "outcomes": answer["outcomes"],
        "cpu_us": {who: cpu_s / count * 1e6 for who, cpu_s in spent.cpu_s.items()},
        "others_percent": spent.others_percent(elapsed_s, os.cpu_count() or 1),
    }


# -- a hung group --------------------------------------------------------------------------------


def _hung(director: Director) -> list[Row]:
    """The same storm alone and beside a group whose every check runs out of time, alternately."""
    count = 500 if director.plan.is_quick else 2_000
    pairs = 2 if director.plan.is_quick else _HUNG_PAIRS
    alone_s, beside_s, silent_count = [], [], 0
    # Hung checks come back soon and often: an hour of them in some seconds. And no breaker, which
    # would leave the hung group alone after its first ones.
    rules = {"interval_ms": 1_000, "count_max": 1_000}
    never = {"failure_count": 1_000_000}
    with _engine(director, "hung-", rules, {"answer_s": 0.1}, never) as load:
        pids = {"sidecar": load.pid}
        _storm(director, load, pids, "", count, {})  # Java compiles
        for pair in range(pairs):
            for is_beside in (False, True) if pair % 2 == 0 else (True, False):
                if not is_beside:
                    alone_s.append(_storm(director, load, pids, "", count, {})["decided_s"])
                    continue
                _, order = _orphans(director, load, count, _AT_ONCE, {})
                time.sleep(_DUE_S)
                load.order({**order, "kind": "hang", "within_s": _WITHIN_S})
                beside = _storm(director, load, pids, "", count, {})
                beside_s.append(beside["decided_s"])
                silent_count += beside["outcomes"].get("silent", 0)
                load.order({**order, "kind": "roll_back"})
                load.order({"kind": "idle", "within_s": _WITHIN_S})
    return [
        {
            "kind": "hung",
            "transaction_count": count,
            "alone_s": alone_s,
            "beside_s": beside_s,
            "silent_count": silent_count,
            "ratio": Ratio.of(alone_s, beside_s).as_dict(),
        }
    ]


# -- how late ------------------------------------------------------------------------------------


def _lag(director: Director) -> list[Row]:
    """Checks that fall due one after the other, among many that do not, beside a decided load."""
    is_quick = director.plan.is_quick
    pending_count, due_count, over_s = (10_000, 1_000, 5) if is_quick else (100_000, 6_000, 30)
    with _engine(director, "lag-", {"renew_ms": 86_400_000}) as load:
        pids = {"sidecar": load.pid, "broker": director.kafka.broker_pid()}
        rss_before_mib, _ = usage.rss_mib(load.pid)
        began_s = time.monotonic()
        _orphans(director, load, pending_count - due_count, _LONG, {})
        each_s = (time.monotonic() - began_s) / (pending_count - due_count)
        rss_mib, _ = usage.rss_mib(load.pid)
        # The first one is due when all of them are prepared, and the producer is there.
        first_s = 2 + math.ceil(3 * each_s * due_count)
        cell, order = _orphans(director, load, due_count, [first_s, first_s + over_s], {})
        closed_loop = director.closed_loop(_LAG_CONCURRENCY, over_s + first_s)
        began_s, before = time.monotonic(), usage.Usage.of(pids)
        answer = load.order({**order, "kind": "lag", "within_s": _WITHIN_S, "load": closed_loop})
        spent = usage.Usage.of(pids).since(before)
        elapsed_s = time.monotonic() - began_s
        director.arrivals(cell, (due_count + 1) // 2)
        director.arrivals(closed_loop["cell"], answer["load"]["count"])
    loaded = answer["load"]
    return [
        {
            "kind": "lag",
            "pending_count": answer["pending_count"],
            "check_count": answer["check_count"],
            "checks_per_s": due_count / over_s,
            "lag_p50_ms": Spread.of(answer["lag_s"]).p50_ms,
            "lag_p99_ms": Spread.of(answer["lag_s"]).p99_ms,
            "lag_max_ms": max(answer["lag_s"]) * 1000,
            "repeated_count": answer["repeated_count"],
            "outcomes": answer["outcomes"],
            "committed_per_s": loaded["count"] / (loaded["ended_s"] - loaded["started_s"]),
            "each_bytes": (rss_mib - rss_before_mib) * 2**20 / (pending_count - due_count),
            "rss_mib": rss_mib,
            "cpu_percent": {who: 100 * s / elapsed_s for who, s in spent.cpu_s.items()},
            "others_percent": spent.others_percent(elapsed_s, os.cpu_count() or 1),
        }
    ]


# -- memory --------------------------------------------------------------------------------------


def _memory(director: Director) -> list[Row]:
    """A ledger full of pending transactions, alone in a process of its own."""
    made = []
    for count in (10_000, 100_000) if director.plan.is_quick else (100_000, 1_000_000):
        with director.child("load_memory", {}) as load:
            made.append({"kind": "memory", **load.order({"count": count})})
    return made


# -- parts ---------------------------------------------------------------------------------------


def _engine(
    director: Director,
    prefix: str,
    rules: dict[str, Any] | None = None,
    desk: dict[str, Any] | None = None,
    breaker: dict[str, Any] | None = None,
) -> Child:
    given = director.arguments(
        prefix=_PREFIX + prefix, rules=rules or {}, desk=desk or {}, breaker=breaker or {}
    )
    return director.child("load_checks", given)


def _orphans(
    director: Director, load: Child, count: int, immunity_s: list[int], more: dict[str, Any]
) -> tuple[int, dict[str, Any]]:
    """Prepare them for a group of their own; gives their cell, and how to name them in an order."""
    cell = director.new_cell()
    order = {"group": f"group-{cell}", "cell": cell, "count": count, "topic": stage.TARGET, **more}
    load.order({**order, "kind": "prepare", "immunity_s": immunity_s})
    return cell, order


def report(made: list[Row]) -> list[str]:
    """For people; of repeated drains the middle one."""
    drains = [row for row in made if row["kind"] == "drain"]
    shown = [
        rows.drain_row(rows.typical([row for row in drains if row["mode"] == mode]))
        for mode in dict.fromkeys(row["mode"] for row in drains)
    ]
    table = [figures.table(rows.DRAIN_HEAD, shown), ""] if shown else []
    return [*table, *[rows.line(row) for row in made if row["kind"] != "drain"]]
