"""Upgrades and downgrades: sidecars are replaced one by one by those of another release, and back.

What is told of each replacement: which release, how it was stopped, and how long it took until the
others worked on everything.
"""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from chaos.kit import nemesis as do
from chaos.kit import remoting_app
from chaos.kit.releases import RELEASES, Release, run_as

if TYPE_CHECKING:
    from chaos.kit.fault_sidecar import FaultSidecar
    from chaos.kit.stage import Scene

#: Both releases side by side, for checks and a few steps of each.
_MIXED_S = 4.0
_STOP_S = 30.0
UP, DOWN = "takeover while upgrading", "takeover while downgrading"
KILLED = "takeover after kill -9"


def up_and_down(scene: Scene, name: str, number: signal.Signals) -> None:
    """All sidecars are of that release: one by one becomes of this tree, then of that one again."""
    older = RELEASES[name]
    remoting_app.add_to(scene)
    scene.go_on(_MIXED_S)
    for release, what in ((None, UP), (older, DOWN)):
        for sidecar in scene.sidecars.values():
            _replace(scene, sidecar, release, what, number)
            scene.go_on(_MIXED_S)
    answered = remoting_app.answered_count(scene)
    if not answered:
        raise RuntimeError("the application that speaks RocketMQ's protocol has done nothing")
    scene.faults.append(f"{answered} calls over RocketMQ's protocol were answered")


def _replace(
    scene: Scene, victim: FaultSidecar, release: Release | None, what: str, number: signal.Signals
) -> None:
    had = len(victim.working())
    since_s = time.monotonic()
    assert victim.process is not None
    victim.is_wanted = False
    victim.process.send_signal(number)
    if number is signal.SIGKILL:
        what = KILLED
    elif release is not None:  # an older one does not say when
        since_s = do.hands_over(scene, victim, since_s)
    do.taken_over(scene, victim, what, since_s)
    took_s = time.monotonic() - since_s
    code = victim.process.wait(_STOP_S)
    if number is signal.SIGTERM and code != 0:
        raise RuntimeError(f"SIGTERM ended sidecar {victim.folder.name} with status {code}")
    scene.faults.append(
        f"sidecar {victim.folder.name} becomes {'newer' if release is None else release.name} after"
        f" {number.name}; its {had} half partitions worked elsewhere after {took_s:.1f} s"
    )
    run_as(victim, release)
    do.restart_sidecar(scene, victim)


def drain_all(scene: Scene) -> None:
    """All sidecars are stopped in good order under load, the last one too; then all come back."""
    for sidecar in scene.sidecars.values():
        since_s = time.monotonic()
        code = sidecar.terminate(_STOP_S)
        do.note_worst(scene, "end after SIGTERM", time.monotonic() - since_s)
        if code != 0:
            raise RuntimeError(f"SIGTERM ended sidecar {sidecar.folder.name} with status {code}")
        scene.faults.append(f"SIGTERM to sidecar {sidecar.folder.name}")
    scene.go_on(2.0)
    for sidecar in scene.sidecars.values():
        sidecar.start()
    scene.wait_working(60)
