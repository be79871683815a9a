"""Faults, one function each: what is done, for how long, and how it is healed.

Every function notes in `scene.faults` what has really happened: a scenario whose list is empty has
tested nothing. Where a recovery can be measured it is put into `scene.recovery`, in seconds.
"""

from __future__ import annotations

import random
import signal
import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from harness.kafka import wait_until
from harness.sidecar import READY

if TYPE_CHECKING:
    from collections.abc import Callable

    from chaos.kit.fault_sidecar import FaultSidecar
    from chaos.kit.stage import Scene

_TAKEOVER_WAIT_S = 40.0
_WORKING_S = 60.0

#: Role of a broker -> the topic whose partition 0 it leads; None stands for the scene's own.
_ROLES = {"transactions": "__transaction_state", "group": "__consumer_offsets"}


def note_worst(scene: Scene, what: str, seconds: float) -> None:
    """Keep the longest."""
    scene.recovery[what] = round(max(seconds, scene.recovery.get(what, 0.0)), 2)


# -- sidecars ------------------------------------------------------------------------------------


def taken_over(scene: Scene, victim: FaultSidecar, what: str, since_s: float) -> None:
    """Wait until the others own everything, and note how long it took since then."""
    others = [s for s in scene.others(victim) if s.is_wanted]
    if others:
        scene.wait_working(_TAKEOVER_WAIT_S, others)
        note_worst(scene, what, time.monotonic() - since_s)


def kill_sidecar(scene: Scene, victim: FaultSidecar, *, measured: bool = True) -> None:
    """kill -9; the others take over; it comes back."""
    since_s = time.monotonic()
    victim.kill()
    scene.faults.append(f"kill -9 of sidecar {victim.folder.name}")
    if measured:
        taken_over(scene, victim, "takeover after kill -9", since_s)
    restart_sidecar(scene, victim)


def hands_over(scene: Scene, victim: FaultSidecar, since_s: float) -> float:
    """When it gives its half partitions up: until then it works on them, whatever it waits for."""
    line = "action=handing_over"
    wait_until(
        lambda: not victim.is_alive or line in victim.told(),
        _TAKEOVER_WAIT_S,
        interval_s=0.005,
        what=f"sidecar {victim.folder.name} hands over",
    )
    if line not in victim.told():  # there was nothing to give up
        return since_s
    now_s = time.monotonic()
    note_worst(scene, "ends waited for after SIGTERM", now_s - since_s)
    return now_s


def restart_sidecar(scene: Scene, victim: FaultSidecar) -> None:
    """Start it again and wait until all partitions are owned."""
    victim.start()

    def is_ready() -> bool:
        scene.revive()
        return victim.admin_port != 0 and victim.ask("/readyz")[0] in READY

    wait_until(
        is_ready,
        _WORKING_S,
        interval_s=0.05,
        what=f"sidecar {victim.folder.name} is ready again",
    )
    scene.wait_working(_WORKING_S)


def stop_sidecar(scene: Scene, victim: FaultSidecar) -> None:
    """SIGTERM under load; the others take over; it comes back."""
    since_s = time.monotonic()
    assert victim.process is not None
    victim.is_wanted = False
    victim.process.send_signal(signal.SIGTERM)
    scene.faults.append(f"SIGTERM to sidecar {victim.folder.name}")
    taken_over(scene, victim, "takeover after SIGTERM", hands_over(scene, victim, since_s))
    code = victim.process.wait(30)
    note_worst(scene, "end after SIGTERM", time.monotonic() - since_s)
    if code != 0:
        raise RuntimeError(f"SIGTERM ended sidecar {victim.folder.name} with status {code}")
    restart_sidecar(scene, victim)


def pause_sidecar(
    scene: Scene, victim: FaultSidecar, seconds: float, *, beyond_session: bool
) -> None:
    """SIGSTOP, then SIGCONT: beyond the session it wakes as an owner that is none any more."""
    since_s = time.monotonic()
    victim.pause()
    scene.faults.append(f"SIGSTOP of sidecar {victim.folder.name} for {seconds:g} s")
    if beyond_session:
        taken_over(scene, victim, "takeover after SIGSTOP", since_s)
    scene.go_on(max(0.0, seconds - (time.monotonic() - since_s)))
    victim.resume()
    scene.wait_working(_WORKING_S)


def restart_in_turn(scene: Scene, rounds: int = 1) -> None:
    """A rolling restart: each sidecar is stopped in good order and started again."""
    for _ in range(rounds):
        for sidecar in scene.sidecars.values():
            stop_sidecar(scene, sidecar)


def rebalance_storm(scene: Scene, rng: random.Random, rounds: int = 4) -> None:
    """One sidecar leaves and comes again and again, by force or in order."""
    victim = scene.sidecars["b"]
    for _ in range(rounds):
        if rng.random() < 0.5:
            victim.kill()
        else:
            victim.terminate()
        scene.faults.append("a member leaves")
        scene.go_on(rng.uniform(0.2, 1.5))
        victim.start()
        scene.go_on(rng.uniform(1.0, 2.5))
    scene.wait_working(_WORKING_S)


def crash_at(scene: Scene, point: str, visit: int) -> None:
    """The sidecar that was started with this point armed kills itself there and comes back.

    For points of a takeover another sidecar is killed first, so that there is one. Raises
    LookupError when the point is not reached.
    """
    victim, other = scene.sidecars["a"], scene.sidecars["b"]
    trigger = scene.folder / "a" / "trigger"
    trigger.touch()
    if point in TAKEOVER_POINTS:
        other.kill()
        scene.faults.append("kill -9 of sidecar b")
    since_s = time.monotonic()
    try:
        wait_until(lambda: not victim.is_alive, 25, what=f"death at {point}")
    except TimeoutError:
        raise LookupError(f"{point} was not reached {visit} times in 25 s") from None
    if not trigger.with_suffix(".reached").exists():
        raise RuntimeError(f"the sidecar died, but not at {point}: {victim.log}")
    scene.faults.append(f"crash at {point}, visit {visit}")
    # The next life is the shipped program as it is.
    victim.command, victim.dies_on_purpose = type(victim).command, False
    victim.is_wanted = False
    if point in TAKEOVER_POINTS:
        other.start()
        restart_sidecar(scene, victim)
    else:
        taken_over(scene, victim, "takeover after kill -9", time.monotonic())
        restart_sidecar(scene, victim)
    scene.recovery["time to the crash"] = round(time.monotonic() - since_s, 2)


TAKEOVER_POINTS = frozenset(
    {"before_fence", "after_fence", "after_positions", "mid_replay", "after_replay"}
)


# -- brokers -------------------------------------------------------------------------------------


def broker_of(scene: Scene, role: str) -> int:
    """The broker that now has a role: half, target, transactions or group."""
    topic = _ROLES.get(role) or {"half": scene.names.half, "target": scene.targets[0]}[role]
    return scene.stage.leader_of(topic)


def kill_broker(scene: Scene, role: str, away_s: float = 3.0) -> None:
    """kill -9 of the broker with this role; it comes back after a while."""
    kafka, broker_id = scene.stage.kafka, broker_of(scene, role)
    kafka.kill_broker(broker_id)
    scene.faults.append(f"kill -9 of broker {broker_id} ({role})")
    scene.go_on(away_s)
    kafka.restart_broker(broker_id, wait_until_ready=False)
    kafka.wait_until_ready()
    scene.wait_working(_WORKING_S)


def stop_broker(scene: Scene, role: str) -> None:
    """SIGTERM: it hands over its leaderships first; it comes back at once."""
    kafka, broker_id = scene.stage.kafka, broker_of(scene, role)
    kafka.stop_broker(broker_id)
    scene.faults.append(f"orderly stop of broker {broker_id} ({role})")
    kafka.restart_broker(broker_id, wait_until_ready=False)
    kafka.wait_until_ready()
    scene.wait_working(_WORKING_S)


def pause_broker(scene: Scene, role: str, seconds: float) -> None:
    """SIGSTOP, then SIGCONT."""
    kafka, broker_id = scene.stage.kafka, broker_of(scene, role)
    kafka.pause_broker(broker_id)
    scene.faults.append(f"SIGSTOP of broker {broker_id} ({role}) for {seconds:g} s")
    scene.go_on(seconds)
    kafka.resume_broker(broker_id)
    kafka.wait_until_ready()
    scene.wait_working(_WORKING_S)


def kill_all_brokers(scene: Scene) -> None:
    """The whole cluster at once."""
    kafka = scene.stage.kafka
    for broker_id in kafka.broker_ids:
        kafka.kill_broker(broker_id)
    scene.faults.append("kill -9 of all brokers")
    for broker_id in kafka.broker_ids:
        kafka.restart_broker(broker_id, wait_until_ready=False)
    kafka.wait_until_ready()
    scene.wait_working(_WORKING_S)


def fill_broker_disk(scene: Scene, away_s: float = 4.0) -> None:
    """Broker 3 finds no room; it gets room again and is started anew (Kafka gives up by itself)."""
    stage = scene.stage
    if stage.disk.trouble is not None:
        raise LookupError(f"no small disk can be mounted here: {stage.disk.trouble}")
    stage.disk.fill()
    scene.faults.append("disk of broker 3 full")
    scene.go_on(away_s)
    stage.disk.free()
    stage.kafka.restart_broker(3, wait_until_ready=False)
    stage.kafka.wait_until_ready()
    scene.wait_working(_WORKING_S)


def restart_brokers_in_turn(scene: Scene) -> None:
    """A rolling restart of the cluster: every leadership moves, those of the coordinators too."""
    kafka = scene.stage.kafka
    for broker_id in kafka.broker_ids:
        kafka.stop_broker(broker_id)
        scene.faults.append(f"orderly stop of broker {broker_id}")
        kafka.restart_broker(broker_id, wait_until_ready=False)
        kafka.wait_until_ready()
        scene.stage.wait_in_sync()
    scene.wait_working(_WORKING_S)


# -- the network of the first sidecar ------------------------------------------------------------


def bad_network(scene: Scene, seconds: float, what: str, order: Callable[[], object]) -> None:
    """Order something at the links, let it last, heal."""
    before = scene.stage.links.passed()
    if before == 0:
        raise RuntimeError("no request has ever passed the proxies")
    order()
    scene.faults.append(f"{what} for {seconds:g} s")
    scene.go_on(seconds)
    scene.stage.links.heal()
    scene.stage.redis_link.heal()
    scene.wait_working(_WORKING_S)


def cut_repeatedly(scene: Scene, rng: random.Random, rounds: int = 5) -> None:
    """Connections are reset in the middle of frames, again and again."""
    for _ in range(rounds):
        scene.stage.links.cut_after_bytes(rng.randrange(1, 3_000))
        scene.go_on(rng.uniform(0.3, 1.0))
        scene.faults.append(f"{scene.stage.links.cut()} connections reset")
    scene.stage.links.heal()
    scene.wait_working(_WORKING_S)


def hold_requests(scene: Scene, api_key: int, seconds: float, times: int = 2) -> None:
    """Requests of one kind are held while their connection is reset; they arrive late."""
    for _ in range(times):
        holds = {
            broker_id: proxy.hold(api_key, reset_client=True)
            for broker_id, proxy in scene.stage.links.proxies.items()
        }
        wait_until(lambda: any(h.frames for h in holds.values()), 15, what="a frame to hold")  # noqa: B023 - asked within this round
        scene.go_on(seconds)
        caught = sum(len(hold.frames) for hold in holds.values())
        for hold in holds.values():
            hold.release()
        scene.faults.append(f"{caught} requests {api_key} held for {seconds:g} s")
        scene.go_on(1.0)
    scene.stage.links.heal()
    scene.wait_working(_WORKING_S)


# -- Redis ---------------------------------------------------------------------------------------


def kill_redis(scene: Scene, away_s: float = 3.0) -> None:
    """kill -9; it comes back empty."""
    scene.stage.redis.kill()
    scene.faults.append("kill -9 of Redis")
    scene.go_on(away_s)
    scene.stage.redis.start()


def pause_redis(scene: Scene, seconds: float) -> None:
    """SIGSTOP, then SIGCONT."""
    scene.stage.redis.pause()
    scene.faults.append(f"SIGSTOP of Redis for {seconds:g} s")
    scene.go_on(seconds)
    scene.stage.redis.resume()


def wipe_redis(scene: Scene, rng: random.Random, rounds: int = 4) -> None:
    """FLUSHALL at random moments."""
    client = scene.stage.redis_client()
    for _ in range(rounds):
        client.flushall()
        scene.faults.append("FLUSHALL")
        scene.go_on(rng.uniform(0.3, 1.5))
    client.close()


def fill_redis(scene: Scene, seconds: float = 4.0) -> None:
    """No memory left, and nothing may be evicted."""
    client = scene.stage.redis_client()
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", "1")
    scene.faults.append(f"Redis full for {seconds:g} s")
    scene.go_on(seconds)
    client.config_set("maxmemory", "0")
    client.close()


def read_only_redis(scene: Scene, seconds: float = 4.0) -> None:
    """A replica whose master is nowhere, as after a failover that went wrong."""
    client = scene.stage.redis_client()
    client.execute_command("REPLICAOF", "127.0.0.1", "1")
    scene.faults.append(f"Redis read-only for {seconds:g} s")
    scene.go_on(seconds)
    client.execute_command("REPLICAOF", "NO", "ONE")
    client.close()


def revoke_redis(scene: Scene, seconds: float = 4.0) -> None:
    """The right to write is taken away."""
    client = scene.stage.redis_client()
    client.execute_command("ACL", "SETUSER", "default", "-@write")
    scene.faults.append(f"Redis without write rights for {seconds:g} s")
    scene.go_on(seconds)
    client.execute_command("ACL", "SETUSER", "default", "+@all")
    client.close()


def garbage_in_redis(scene: Scene) -> None:
    """Every key of the scene becomes something of another type, or nonsense."""
    client = scene.stage.redis_client()
    changed = 0
    for key in client.scan_iter(match="*"):
        client.delete(key)
        client.set(key, b"\xff not what you think")
        changed += 1
    scene.faults.append(f"{changed} keys of Redis spoiled")
    scene.go_on(2.0)
    client.close()


# -- applications --------------------------------------------------------------------------------


def kill_apps(scene: Scene, count: int = 1, away_s: float = 1.0) -> None:
    """kill -9 of applications; each begins another life."""
    victims = scene.apps[:count]
    for app in victims:
        app.kill()
        scene.faults.append(f"kill -9 of {app.plan.name}")
    scene.go_on(away_s)
    for app in victims:
        app.start()


def pause_apps(scene: Scene, seconds: float) -> None:
    """SIGSTOP of one application, then SIGCONT: its calls and answers come late."""
    scene.apps[0].send_signal(signal.SIGSTOP)
    scene.faults.append(f"SIGSTOP of {scene.apps[0].plan.name} for {seconds:g} s")
    scene.go_on(seconds)
    scene.apps[0].send_signal(signal.SIGCONT)


def kill_everything(scene: Scene) -> None:
    """All sidecars, applications, brokers and Redis at once."""
    for app in scene.apps:
        app.kill()
    for sidecar in scene.sidecars.values():
        sidecar.kill()
    scene.stage.redis.kill()
    scene.faults.append("kill -9 of all applications, sidecars and Redis")
    scene.stage.redis.start()
    for sidecar in scene.sidecars.values():
        sidecar.start()
    for broker_id in scene.stage.kafka.broker_ids:
        scene.stage.kafka.kill_broker(broker_id)
    scene.faults.append("kill -9 of all brokers")
    for broker_id in scene.stage.kafka.broker_ids:
        scene.stage.kafka.restart_broker(broker_id, wait_until_ready=False)
    scene.stage.kafka.wait_until_ready()
    scene.wait_working(_WORKING_S)
    for app in scene.apps:
        app.start()


# -- settings that drift -------------------------------------------------------------------------


def set_topic(scene: Scene, topic: str, key: str, value: str) -> None:
    """Change one setting of a topic while it is used."""
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in scene.stage.admin.incremental_alter_configs([resource]).values():
        future.result(15)
    scene.faults.append(f"{key}={value} on {topic.removeprefix(scene.prefix)}")


def delete_topic(scene: Scene, topic: str) -> None:
    """Delete a topic while it is used."""
    for future in scene.stage.admin.delete_topics([topic], operation_timeout=15).values():
        future.result(20)
    scene.faults.append(f"{topic.removeprefix(scene.prefix)} deleted")


def create_topic(scene: Scene, topic: str, partitions: int = 2) -> None:
    """Create it (anew)."""
    wanted = NewTopic(topic, partitions, 3)
    for future in scene.stage.admin.create_topics([wanted], operation_timeout=15).values():
        future.result(20)


def add_partitions(scene: Scene, topic: str, total: int) -> None:
    """More partitions for a topic that is used."""
    wanted = [NewPartitions(topic, total)]
    for future in scene.stage.admin.create_partitions(wanted, operation_timeout=15).values():
        future.result(20)
    scene.grown_topics.add(topic)
    scene.faults.append(f"{topic.removeprefix(scene.prefix)} has {total} partitions")


def hijack(scene: Scene, rounds: int = 3) -> None:
    """A stranger takes the owners' transactional ids, as a second installation by mistake would."""
    for _ in range(rounds):
        for partition in range(2):
            stranger = Producer(
                {
                    "bootstrap.servers": scene.stage.kafka.bootstrap,
                    "transactional.id": f"{scene.names.owner_group}-{partition}",
                    "log_level": 0,
                }
            )
            try:
                stranger.init_transactions(10)
                scene.faults.append(f"transactional id of partition {partition} taken")
            except KafkaException as error:
                print(f"the stranger was refused: {error}")
            del stranger
        scene.go_on(1.0)
    scene.wait_working(_WORKING_S)


def reset_watermarks(scene: Scene) -> None:
    """All sidecars are stopped, the stored watermarks are deleted, all start again."""
    for sidecar in scene.sidecars.values():
        sidecar.terminate()

    def gone() -> bool:
        for future in scene.stage.admin.delete_consumer_groups([scene.names.owner_group]).values():
            return future.exception(15) is None
        return False

    wait_until(gone, 20, interval_s=0.3, what="the owner group can be deleted")
    scene.faults.append("stored watermarks deleted")
    scene.resets_ms.append(time.time_ns() // 1_000_000)
    for sidecar in scene.sidecars.values():
        sidecar.start()
    scene.wait_working(_WORKING_S)
