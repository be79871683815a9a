"""What the curves share: a load on sidecars, and what it costs everybody."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import figures, stamps, usage
from bench.curves.points import Point, busiest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.children import Child
    from bench.director import Director
    from bench.stage import Sidecar


@dataclass(frozen=True, slots=True)
class Ground:
    """What a load works on; the loads are as many as the sidecars."""

    director: Director
    sidecars: Sequence[Sidecar]
    loads: Sequence[Child]
    kind: str = "unix"

    @property
    def servers(self) -> dict[str, int]:
        """Pids."""
        brokers = self.director.kafka.broker_ids
        return {
            **{f"sidecar {n}": sidecar.pid for n, sidecar in enumerate(self.sidecars)},
            **{f"Kafka {n}": self.director.kafka.broker_pid(n) for n in brokers},
        }

    def run(self, callers: int, seconds: float, **more: Any) -> list[tuple[Any, Any, Any]]:
        """One closed loop at each sidecar at once: answers, tallies, arrivals."""

        def one(sidecar: Sidecar, load: Child, order: dict[str, Any]) -> Any:
            return load.order({**order, **more, "address": sidecar.address(self.kind)})

        share = max(1, callers // len(self.sidecars))
        orders = [self.director.closed_loop(share, seconds) for _ in self.sidecars]
        with ThreadPoolExecutor(len(orders)) as pool:
            answers = list(pool.map(one, self.sidecars, self.loads, orders))
        return [
            (
                answer,
                stamps.Tally.load(Path(order["stamps"])),
                self.director.arrivals(order["cell"], count),
            )
            for answer, order in zip(answers, orders, strict=True)
            for count in [answer["count"]]
        ]


def cell(ground: Ground, at: float, callers: int, seconds: float, **more: Any) -> Point:
    """One measured loop."""
    servers = ground.servers
    pids = {
        **servers,
        "broker": ground.director.kafka.broker_pid(),
        "watcher": ground.director.watcher.pid,
        **{f"client {n}": load.pid for n, load in enumerate(ground.loads)},
    }
    for pid in servers.values():
        usage.forget_peak(pid)
    began_s, before = time.monotonic(), usage.Usage.of(pids)
    steps = _steps(ground)
    threads_s = {name: usage.thread_cpu_s(pid) for name, pid in servers.items()}
    parts = ground.run(callers, seconds, **more)
    spent = usage.Usage.of(pids).since(before)
    elapsed_s = time.monotonic() - began_s
    steps = _steps(ground) - steps
    count = sum(answer["count"] for answer, _, _ in parts)
    visible_s = [
        delay
        for _, tally, arrived in parts
        for delay in figures.delays_s(tally.acknowledged_at_s, arrived)
    ]
    started_s = min(answer["started_s"] for answer, _, _ in parts)
    ended_s = max(answer["ended_s"] for answer, _, _ in parts)
    arrived_s = max(max(arrived) for _, _, arrived in parts)
    spread = figures.Spread.of(visible_s)
    ours_s = sum(s for name, s in spent.cpu_s.items() if name != "broker")  # named twice
    others_s = max(0.0, spent.machine_s - ours_s)
    return Point(
        at,
        {
            "commits_per_s": count / (ended_s - started_s),
            "forwarded_per_s": count / (arrived_s - started_s),
            "prepare_p50_ms": _p50_ms([s for _, tally, _ in parts for s in tally.prepare_s]),
            "commit_p50_ms": _p50_ms([s for _, tally, _ in parts for s in tally.commit_s]),
            "visible_p50_ms": spread.p50_ms,
            "visible_p99_ms": spread.p99_ms,
            **{
                f"{who}_us": sum(s for n, s in spent.cpu_s.items() if n.startswith(who))
                / count
                * 1e6
                for who in ("sidecar", "Kafka", "client")
            },
            "steps_per_s": steps / (arrived_s - started_s),
            "per_step": count / (steps or 1),
            "sidecar_mib": max(usage.rss_mib(s.pid)[1] for s in ground.sidecars),
            "Kafka_mib": max(usage.rss_mib(pid)[1] for n, pid in servers.items() if n[0] == "K"),
            "others_percent": 100 * others_s / (elapsed_s * (os.cpu_count() or 1)),
        },
        busiest(_since(threads_s, servers)),
    )


def _steps(ground: Ground) -> float:
    """Kafka transactions of the owners: what a message costs depends on how many share one."""
    name = "halfhitch_kafka_transactions_total"
    return sum(sidecar.counts().get(name, 0.0) for sidecar in ground.sidecars)


def _p50_ms(seconds: list[float]) -> float:
    return figures.Spread.of(seconds).p50_ms


def _since(before_s: dict[str, dict[str, float]], pids: dict[str, int]) -> Any:
    return {
        name.split()[0]: {
            # One that has ended takes what it used with it.
            thread: max(0.0, seconds - before_s[name].get(thread, 0.0))
            for thread, seconds in usage.thread_cpu_s(pid).items()
        }
        for name, pid in pids.items()
    }


def idle_percent(sidecar: Sidecar, seconds: float) -> float:
    """Of a core, while nothing is asked for."""
    began_s, before_s = time.monotonic(), usage.exact_cpu_s(sidecar.pid)
    time.sleep(seconds)
    spent_s = usage.exact_cpu_s(sidecar.pid) - before_s
    return 100 * spent_s / (time.monotonic() - began_s)
