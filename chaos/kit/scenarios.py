"""The table of scenarios: which component, which fault, what is done.

Owns `SCENARIOS` (one fault each), `mix` (several, from a seed) and `NOT_RUN` (cells of the matrix
that this kit does not run, with the reason). A function injects its fault and heals it; the
load runs before, meanwhile and afterwards.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from chaos.kit import nemesis as do
from chaos.kit import old_watermarks, remoting_app, resumes, strangers, upgrades
from chaos.kit.proxy import ApiKey, Direction
from chaos.kit.releases import RELEASES
from halfhitch import crash_points

if TYPE_CHECKING:
    from chaos.kit.stage import Scene

Act = Callable[["Scene", random.Random], None]

#: Rows (components) and columns (faults) of the matrix, in the order of the report.
OWNER, DOOR, APP = "owner sidecar", "sidecar that owns nothing", "application"
HALF, TARGET = "broker: leader of the half log", "broker: leader of a target"
TXN, GROUP = "broker: transaction coordinator", "broker: group coordinator"
REDIS, ALL, LOGS = "Redis", "several at once", "topics and positions"
ROWS = (OWNER, DOOR, APP, HALF, TARGET, TXN, GROUP, REDIS, LOGS, ALL)

KILL, STOP, PAUSE, PARTITION = "kill -9", "orderly stop", "pause", "partition"
SLOW, RESET, DISK, CLOCK, DRIFT = "slow or held", "reset", "disk or memory full", "clock", "drift"
CRASH, MIX = "crash point", "mix"
COLUMNS = (KILL, STOP, PAUSE, PARTITION, SLOW, RESET, DISK, CLOCK, DRIFT, CRASH)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row of the table."""

    name: str
    row: str
    column: str
    act: Act
    #: For the scene: number of sidecars, settings, proxies.
    options: dict[str, Any] = field(default_factory=dict)
    #: Names of targets that are destroyed on purpose: what went there is not judged.
    lost_targets: tuple[str, ...] = ()
    #: Transactions that could not be forwarded are parked; the others are judged as ever.
    parks: bool = False
    #: Commits are visible within so many seconds, whatever happens; None: not judged.
    late_s_max: float | None = None
    #: Of a mix, which is chosen by it; the others are given one.
    seed: int | None = None
    after_s: float = 3.0


def _owner(act: Callable[..., None], **options: Any) -> Act:
    return lambda scene, _: act(scene, scene.owner(), **options)


def _first(act: Callable[..., None], **options: Any) -> Act:
    return lambda scene, _: act(scene, scene.sidecars["a"], **options)


def _plain(act: Callable[..., None], *given: Any, **options: Any) -> Act:
    return lambda scene, _: act(scene, *given, **options)


def _links(seconds: float, what: str, order: Callable[[Any], object]) -> Act:
    """Something at the first sidecar's way to Kafka."""

    def act(scene: Scene, _: random.Random) -> None:
        do.bad_network(scene, seconds, what, lambda: order(scene.stage.links))

    return act


def _redis_link(seconds: float, what: str, order: Callable[[Any], object]) -> Act:
    """Something at the first sidecar's way to Redis."""

    def act(scene: Scene, _: random.Random) -> None:
        do.bad_network(scene, seconds, what, lambda: order(scene.stage.redis_link))

    return act


_PROXY = {"via_proxy": True}
_DOOR = {"first_settings": {"HALFHITCH_OWNER_ENABLED": "false"}}
_DOOR_PROXY = {**_DOOR, **_PROXY}


def _lower_limit(scene: Scene, _: random.Random) -> None:
    do.set_topic(scene, scene.targets[0], "max.message.bytes", "2000")
    scene.go_on(4)
    do.set_topic(scene, scene.targets[0], "max.message.bytes", "1048588")


def _lower_half_limit(scene: Scene, _: random.Random) -> None:
    do.set_topic(scene, scene.names.half, "max.message.bytes", "2000")
    scene.go_on(4)
    do.set_topic(scene, scene.names.half, "max.message.bytes", "1148588")


def _delete_target(scene: Scene, _: random.Random) -> None:
    do.delete_topic(scene, scene.targets[-1])
    scene.go_on(4)
    do.create_topic(scene, scene.targets[-1])


def _starve_isr(scene: Scene, _: random.Random) -> None:
    do.set_topic(scene, scene.targets[0], "min.insync.replicas", "4")
    scene.go_on(5)
    do.set_topic(scene, scene.targets[0], "min.insync.replicas", "2")


def _clock(shift_s: int) -> dict[str, Any]:
    """Resolved when the scene is made: the settings need a folder."""
    return {"clock_shift_s": shift_s}


def _run_on(scene: Scene, _: random.Random) -> None:
    """The clock is wrong from the start; the fault of this run is a change of owner."""
    scene.faults.append("the wall clock of sidecar a is wrong")
    do.kill_sidecar(scene, scene.sidecars["b"])


def _crash(point: str) -> Scenario:
    def act(scene: Scene, _: random.Random) -> None:
        do.crash_at(scene, point, visit)

    visit = 1 if point in do.TAKEOVER_POINTS or "delete" in point else 7
    visit = 2 if "check" in point else visit
    options = {"crash_point": point, "crash_visit": visit}
    return Scenario(f"crash-{point}", OWNER, CRASH, act, options)


def _in_resume(how: str) -> dict[str, Any]:
    """Sidecar a has this happen to it just before it commits a resume."""
    return {"crash_point": crash_points.RESUME_NAMES[0], "crash_how": how}


def _place(scene: Scene, role: str) -> str:
    names = {"half": scene.names.half, "op": scene.names.op, "parked": scene.names.parked}
    return names.get(role, scene.targets[0])


def _flowing(scene: Scene, role: str) -> tuple[str, ...]:
    """Targets that a fault at this place is no business of."""
    return scene.targets[1:] if role == "target" else scene.targets


def _limit(role: str) -> Act:
    return lambda scene, _: strangers.lower_limit(
        scene, _place(scene, role), _flowing(scene, role), seconds=8.0
    )


def _revoked(role: str) -> Act:
    return lambda scene, _: strangers.revoke_write(
        scene, _place(scene, role), _flowing(scene, role), 8.0
    )


def _hanging(role: str, *, takeover: bool) -> Act:
    return lambda scene, _: strangers.hang_on_log(
        scene, _place(scene, role), 14.0, takeover=takeover
    )


#: Most of what is left to checks is large.
_BIG_UNDECIDED = {"big_percent": 60, "big_plans": "XYN"}


SINGLE: tuple[Scenario, ...] = (
    # An owner that goes, stands still, or is cut off.
    Scenario("owner-kill", OWNER, KILL, _owner(do.kill_sidecar)),
    Scenario("owner-sigterm", OWNER, STOP, _owner(do.stop_sidecar)),
    Scenario("owners-rolling", OWNER, STOP, _plain(do.restart_in_turn)),
    Scenario(
        "owner-pause-short", OWNER, PAUSE, _owner(do.pause_sidecar, seconds=3, beyond_session=False)
    ),
    Scenario(
        "owner-zombie", OWNER, PAUSE, _owner(do.pause_sidecar, seconds=9, beyond_session=True)
    ),
    Scenario(
        "owner-zombie-long", OWNER, PAUSE, _owner(do.pause_sidecar, seconds=15, beyond_session=True)
    ),
    Scenario(
        "owner-cut-off", OWNER, PARTITION, _links(9, "no traffic", lambda n: n.stall()), _PROXY
    ),
    Scenario(
        "owner-deaf",
        OWNER,
        PARTITION,
        _links(9, "no answers", lambda n: n.stall(Direction.RESPONSE)),
        _PROXY,
    ),
    Scenario(
        "owner-mute",
        OWNER,
        PARTITION,
        _links(9, "no requests", lambda n: n.stall(Direction.REQUEST)),
        _PROXY,
    ),
    Scenario("owner-slow", OWNER, SLOW, _links(5, "40 ms more", lambda n: n.delay(40)), _PROXY),
    Scenario(
        "owner-crawling", OWNER, SLOW, _links(6, "900 ms more", lambda n: n.delay(900)), _PROXY
    ),
    Scenario("owner-resets", OWNER, RESET, do.cut_repeatedly, _PROXY),
    Scenario("owner-refused", OWNER, RESET, _links(4, "refused", _refused := (
        lambda n: (n.refuse(), n.cut()))), _PROXY),
    Scenario("owner-clock-ahead", OWNER, CLOCK, _run_on, _clock(3_600)),
    Scenario("owner-clock-behind", OWNER, CLOCK, _run_on, _clock(-3_600)),
    # A sidecar that only takes requests.
    Scenario("door-kill", DOOR, KILL, _first(do.kill_sidecar, measured=False), _DOOR),
    Scenario(
        "door-pause", DOOR, PAUSE, _first(do.pause_sidecar, seconds=5, beyond_session=False), _DOOR
    ),
    Scenario("door-cut-off", DOOR, PARTITION, _links(6, "no traffic", lambda n: n.stall()),
             _DOOR_PROXY),
    Scenario("door-slow", DOOR, SLOW, _links(5, "200 ms more", lambda n: n.delay(200)),
             _DOOR_PROXY),
    Scenario("door-resets", DOOR, RESET, do.cut_repeatedly, _DOOR_PROXY),
    # Somebody puts back what was parked.
    Scenario("resume-kill", OWNER, KILL, _plain(resumes.kill_while_resuming),
             {**_in_resume("0.5,KILL"), "rate_per_s": 60.0}),
    Scenario("resume-owner-stop", OWNER, STOP, _plain(resumes.stop_the_owner_while_resuming),
             {**_in_resume("8"), "rate_per_s": 60.0}),
    Scenario("resume-pause", OWNER, PAUSE, _plain(resumes.pause_while_resuming, 13.0),
             {**_in_resume("STOP"), "rate_per_s": 60.0}),
    # Links and limits of an owner.
    Scenario("owner-link-flaps", OWNER, RESET, _plain(strangers.flap_while_made),
             {**_PROXY, "rate_per_s": 50.0}),
    Scenario("owner-lags", OWNER, SLOW, _plain(strangers.lag, 6.0),
             {**_PROXY, "sidecar_count": 1}),
    Scenario("owner-stricter", OWNER, DRIFT, _plain(strangers.stricter_owner), {
        "first_settings": {"HALFHITCH_MESSAGES_BYTES_MAX": "20000"},
        "big_percent": 10, "big_bytes": 300_000}),
    # Applications.
    Scenario("apps-slow", APP, SLOW, _plain(strangers.grow_slowly, 10.0), {"slow_percent": 60}),
    Scenario("app-kill", APP, KILL, _plain(do.kill_apps)),
    Scenario("apps-kill-all", APP, KILL, _plain(do.kill_apps, 2)),
    Scenario("app-pause", APP, PAUSE, _plain(do.pause_apps, 5.0)),
    # Brokers, by what they do.
    Scenario("half-leader-kill", HALF, KILL, _plain(do.kill_broker, "half")),
    Scenario("half-leader-stop", HALF, STOP, _plain(do.stop_broker, "half")),
    Scenario("half-leader-pause", HALF, PAUSE, _plain(do.pause_broker, "half", 4)),
    Scenario("half-leader-pause-long", HALF, PAUSE, _plain(do.pause_broker, "half", 12)),
    Scenario("half-limit-lowered", HALF, DRIFT, _lower_half_limit, {"big_percent": 3}),
    Scenario("half-limit-undecided", HALF, DRIFT, _limit("half"), _BIG_UNDECIDED, late_s_max=20.0),
    Scenario("half-stranger", HALF, SLOW, _hanging("half", takeover=False)),
    Scenario("half-stranger-takeover", HALF, SLOW, _hanging("half", takeover=True)),
    Scenario("op-stranger", HALF, SLOW, _hanging("op", takeover=False)),
    Scenario("op-stranger-takeover", HALF, SLOW, _hanging("op", takeover=True),
             {"rate_per_s": 60.0}),
    Scenario("parked-limit-lowered", LOGS, DRIFT, _limit("parked"), _BIG_UNDECIDED,
             late_s_max=20.0),
    Scenario("parked-rights-revoked", LOGS, DRIFT, _revoked("parked"), {"all_via_proxy": True},
             late_s_max=20.0),
    Scenario("target-limit-undecided", TARGET, DRIFT, _limit("target"), _BIG_UNDECIDED, parks=True),
    Scenario("target-rights-revoked", TARGET, DRIFT, _revoked("target"), {"all_via_proxy": True},
             parks=True),
    Scenario("target-stranger", TARGET, SLOW, _plain(strangers.hang_on_target, 8.0)),
    Scenario("target-leader-kill", TARGET, KILL, _plain(do.kill_broker, "target")),
    Scenario("target-leader-pause", TARGET, PAUSE, _plain(do.pause_broker, "target", 4)),
    Scenario("target-leader-stop", TARGET, STOP, _plain(do.stop_broker, "target")),
    Scenario("broker-disk-full", TARGET, DISK, _plain(do.fill_broker_disk)),
    Scenario("target-limit-lowered", TARGET, DRIFT, _lower_limit, {"big_percent": 5}, parks=True),
    Scenario("target-isr-starved", TARGET, DRIFT, _starve_isr, parks=True),
    Scenario(
        "target-deleted",
        TARGET,
        DRIFT,
        _delete_target,
        {"more_targets": ("doomed",)},
        lost_targets=("doomed",),
        parks=True,
    ),
    Scenario(
        "target-partitions-added",
        TARGET,
        DRIFT,
        lambda scene, _: do.add_partitions(scene, scene.targets[1], 4),
    ),
    Scenario("transaction-coordinator-kill", TXN, KILL, _plain(do.kill_broker, "transactions")),
    Scenario("transaction-coordinator-pause", TXN, PAUSE,
             _plain(do.pause_broker, "transactions", 4)),
    Scenario("transaction-coordinator-pause-long", TXN, PAUSE,
             _plain(do.pause_broker, "transactions", 12)),
    Scenario(
        "end-txn-held", TXN, SLOW, _plain(do.hold_requests, int(ApiKey.END_TXN), 2.0), _PROXY
    ),
    Scenario("transactional-id-hijacked", TXN, DRIFT, _plain(do.hijack)),
    Scenario("group-coordinator-kill", GROUP, KILL, _plain(do.kill_broker, "group")),
    Scenario("group-coordinator-pause", GROUP, PAUSE, _plain(do.pause_broker, "group", 8)),
    Scenario(
        "offset-commit-held",
        GROUP,
        SLOW,
        _plain(do.hold_requests, int(ApiKey.TXN_OFFSET_COMMIT), 2.0),
        _PROXY,
    ),
    Scenario("rebalance-storm", GROUP, DRIFT, do.rebalance_storm),
    # Redis.
    Scenario("redis-kill", REDIS, KILL, _plain(do.kill_redis)),
    Scenario("redis-pause", REDIS, PAUSE, _plain(do.pause_redis, 5.0)),
    Scenario("redis-cut-off", REDIS, PARTITION,
             _redis_link(5, "no traffic to Redis", lambda n: n.stall()), _PROXY),
    Scenario("redis-slow", REDIS, SLOW,
             _redis_link(5, "300 ms more to Redis", lambda n: n.delay(300)), _PROXY),
    Scenario("redis-resets", REDIS, RESET,
             _redis_link(4, "half answers of Redis", lambda n: n.garble()), _PROXY),
    Scenario("redis-full", REDIS, DISK, _plain(do.fill_redis)),
    Scenario("redis-flushed", REDIS, DRIFT, do.wipe_redis),
    Scenario("redis-read-only", REDIS, DRIFT, _plain(do.read_only_redis)),
    Scenario("redis-rights-revoked", REDIS, DRIFT, _plain(do.revoke_redis)),
    Scenario("redis-garbage", REDIS, DRIFT, _plain(do.garbage_in_redis)),
    # The logs' own positions.
    Scenario("watermarks-deleted", LOGS, DRIFT, _plain(do.reset_watermarks)),
    Scenario("watermarks-old", LOGS, DRIFT, _plain(old_watermarks.give_old_watermarks)),
    # Everything.
    Scenario("all-brokers-kill", ALL, KILL, _plain(do.kill_all_brokers)),
    Scenario("brokers-rolling", ALL, STOP, _plain(do.restart_brokers_in_turn)),
    Scenario("all-drain", ALL, STOP, _plain(upgrades.drain_all)),
    Scenario("everything-kill", ALL, KILL, _plain(do.kill_everything)),
)  # fmt: skip


def _upgrade(release: str, number: signal.Signals) -> Scenario:
    column = STOP if number is signal.SIGTERM else KILL
    name = f"upgrade-{release}" if column == STOP else f"upgrade-kill-{release}"
    act = _plain(upgrades.up_and_down, release, number)
    return Scenario(name, OWNER, column, act, {"release": release, "settings": remoting_app.DOOR})


UPGRADES = tuple(
    _upgrade(release, number) for release in RELEASES for number in (signal.SIGTERM, signal.SIGKILL)
)
CRASHES = tuple(_crash(point) for point in crash_points.NAMES)
SCENARIOS = {scenario.name: scenario for scenario in (*SINGLE, *UPGRADES, *CRASHES)}

#: What a mix draws from: each heals itself and leaves two sidecars working.
_MIXED: tuple[tuple[str, Act], ...] = (
    ("kill", _owner(do.kill_sidecar)),
    ("stop", _owner(do.stop_sidecar)),
    ("zombie", _owner(do.pause_sidecar, seconds=8, beyond_session=True)),
    ("short pause", _owner(do.pause_sidecar, seconds=2, beyond_session=False)),
    ("resets", partial(do.cut_repeatedly, rounds=3)),
    ("slow", _links(3, "60 ms more", lambda n: n.delay(60))),
    ("cut off", _links(4, "no traffic", lambda n: n.stall())),
    ("EndTxn held", _plain(do.hold_requests, int(ApiKey.END_TXN), 1.5, 1)),
    ("broker killed", _plain(do.kill_broker, "target", 1.0)),
    ("coordinator killed", _plain(do.kill_broker, "transactions", 1.0)),
    ("broker paused", _plain(do.pause_broker, "half", 3)),
    ("application killed", _plain(do.kill_apps)),
    ("Redis killed", _plain(do.kill_redis, 1.0)),
    ("Redis wiped", partial(do.wipe_redis, rounds=2)),
    ("Redis paused", _plain(do.pause_redis, 3.0)),
    ("ids hijacked", _plain(do.hijack, 1)),
)
_QUIET_S = 1.5


def mix(seed: int, count: int = 5) -> Scenario:
    """`count` faults one after the other, chosen by the seed; quiet times between them."""

    def act(scene: Scene, rng: random.Random) -> None:
        for what, one in rng.sample(_MIXED, count):
            print(f"  mix {seed}: {what}", flush=True)
            one(scene, rng)
            scene.go_on(_QUIET_S)

    return Scenario(f"mix-{seed}", ALL, MIX, act, _PROXY, seed=seed)


#: Cells of the matrix without a scenario: why.
NOT_RUN: dict[tuple[str, str], str] = {
    (APP, PARTITION): "its way is a unix socket: cut off means paused or killed, and both are run",
    (APP, CLOCK): "the client reads no wall clock",
    (DOOR, CLOCK): "a door decides nothing by the wall clock; the owner's clock is run",
    (DOOR, DISK): "a sidecar writes nothing to disk but its log",
    (OWNER, DISK): "a sidecar writes nothing to disk but its log",
    (HALF, CLOCK): "a JVM under a changed wall clock needs libfaketime, which is not always there",
    (TARGET, CLOCK): "as for the half log's leader",
    (TXN, CLOCK): "as for the half log's leader",
    (GROUP, CLOCK): "as for the half log's leader",
    (REDIS, CLOCK): "Redis is an index: nothing is decided by its times",
    (HALF, PARTITION): "brokers are not partitioned from each other: no network namespaces used;"
    " the owner's way to all brokers is cut instead",
    (TARGET, PARTITION): "as for the half log's leader",
    (TXN, PARTITION): "as for the half log's leader",
    (GROUP, PARTITION): "as for the half log's leader",
}
