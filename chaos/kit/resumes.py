"""Faults that meet a `parked resume` while its Kafka transaction is open.

A resume writes into the op log under a transactional id of its own: while it is open nobody reads
beyond its note. The sidecar `a` is started with a crash point armed in it (crash_launcher.py); what
is put back is one that nobody ever answers for, so it is parked once more in its second life.
"""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from chaos.kit import nemesis as do
from harness.kafka import wait_until

if TYPE_CHECKING:
    from chaos.kit.fault_sidecar import FaultSidecar
    from chaos.kit.stage import Scene

_PARKED_S = 40.0
_REACHED_S = 30.0


def _parked(scene: Scene, by: FaultSidecar, partitions: list[int]) -> dict[str, Any]:
    """A transaction of these half partitions that is parked and was never put back."""
    found: list[dict[str, Any]] = []

    def is_there() -> bool:
        scene.revive()
        status, answer = by.ask("/v1/parked?limit=1000")
        if status == 200:
            found[:] = [
                one
                for one in answer["transactions"]
                if one["half_partition"] in partitions and not one["resumed_count"]
            ]
        return bool(found)

    wait_until(is_there, _PARKED_S, interval_s=0.2, what=f"something parked of {partitions}")
    return found[0]


def _begin(scene: Scene, partitions: list[int]) -> None:
    """Sidecar `a` puts one of these half partitions back; returns when it has come to the point."""
    by = scene.sidecars["a"]
    one = _parked(scene, by, partitions)
    trigger = by.folder / "trigger"
    trigger.touch()
    path = f"/v1/parked/{quote(one['producer_group'])}/{quote(one['transaction_id'])}/resume"
    order = {"reason": "asked for again", "operator": "the scenario"}
    threading.Thread(target=by.order, args=(path, order), daemon=True).start()
    try:
        wait_until(trigger.with_suffix(".reached").exists, _REACHED_S, interval_s=0.005)
    except TimeoutError:
        raise LookupError("the resume did not come to its commit") from None
    scene.faults.append(f"a resume of half partition {one['half_partition']} is open")


def _as_it_is(victim: FaultSidecar) -> None:
    """The next life is the shipped program."""
    victim.command, victim.dies_on_purpose = type(victim).command, False
    victim.is_wanted = False


def kill_while_resuming(scene: Scene) -> None:
    """The owner puts one of its own back and is killed before the commit: it stays open."""
    victim = scene.sidecars["a"]
    scene.wait_working(30)
    _begin(scene, victim.working())
    wait_until(lambda: not victim.is_alive, 10, interval_s=0.005, what="the death of sidecar a")
    since_s = time.monotonic()
    scene.faults.append("kill -9 of sidecar a")
    _as_it_is(victim)
    do.taken_over(scene, victim, "takeover after kill -9", since_s)
    do.restart_sidecar(scene, victim)


def stop_the_owner_while_resuming(scene: Scene) -> None:
    """A slow resume by one instance; the owner of that half partition is stopped in good order."""
    resumer, owner = scene.sidecars["a"], scene.sidecars["b"]
    scene.wait_working(30)
    _begin(scene, owner.working())
    since_s = time.monotonic()
    assert owner.process is not None
    owner.is_wanted = False
    owner.process.send_signal(signal.SIGTERM)
    scene.faults.append("SIGTERM to sidecar b")
    do.taken_over(scene, owner, "takeover while a resume is open", since_s)
    owner.process.wait(30)
    assert resumer.is_alive
    do.restart_sidecar(scene, owner)


def pause_while_resuming(scene: Scene, seconds: float) -> None:
    """The resumer, an owner too, stands still in it, beyond its session, and wakes up again."""
    victim = scene.sidecars["a"]
    scene.wait_working(30)
    _begin(scene, victim.working())
    since_s = time.monotonic()
    scene.faults.append(f"sidecar a stands still for {seconds:g} s")
    do.taken_over(scene, victim, "takeover while a resume is open", since_s)
    scene.go_on(max(0.0, seconds - (time.monotonic() - since_s)))
    victim.resume()
    scene.wait_working(60)
