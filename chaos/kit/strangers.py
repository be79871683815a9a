"""What others do to the topics we live on: open Kafka transactions, rights, limits, slow links.

Each function says what must go on meanwhile, and waits for it: a run in which it did not breaks off
and is red.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, Producer

from chaos.kit import nemesis as do
from chaos.kit import rights
from chaos.kit.proxy import ApiKey, Direction
from harness.kafka import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chaos.kit.stage import Scene

_WORKING_S = 60.0
#: What nothing is wrong with goes on within so many seconds.
_ON_S = 15.0
#: A stranger's Kafka transaction may be open for so long; longer than any of the scenarios.
_STRANGER_MS = 120_000
#: How much later done marks arrive than the forwards of their step.
_MARKS_MS = 450


def wait_flowing(scene: Scene, topics: Sequence[str], deadline_s: float = _ON_S) -> None:
    """Until each of these targets has got records that were written from now on."""
    since_ms = time.time_ns() // 1_000_000
    waiting = set(topics)

    def all_flow() -> bool:
        scene.revive()
        for seen in scene.committed.since(since_ms):
            waiting.discard(seen.topic)
        return not waiting

    wait_until(all_flow, deadline_s, interval_s=0.1, what=lambda: f"new records on {waiting}")


def wait_checked(scene: Scene, more: int = 3, deadline_s: float = _ON_S) -> None:
    """Until so many more questions have come to the applications."""
    before = scene.check_count()

    def asked() -> bool:
        scene.revive()
        return scene.check_count() >= before + more

    wait_until(asked, deadline_s, interval_s=0.1, what=f"{more} more checks")


# -- Kafka transactions of others ----------------------------------------------------------------


@contextlib.contextmanager
def hanging(scene: Scene, topic: str, partition: int = 0) -> Iterator[None]:
    """A stranger's Kafka transaction is open in this partition, and is aborted in the end."""
    stranger = Producer(
        {
            "bootstrap.servers": scene.stage.kafka.bootstrap,
            "transactional.id": f"{scene.prefix}stranger",
            "transaction.timeout.ms": _STRANGER_MS,
            "log_level": 0,
        }
    )
    stranger.init_transactions(15)
    stranger.begin_transaction()
    stranger.produce(topic, b"of nobody here", partition=partition)
    if stranger.flush(15):
        raise RuntimeError(f"{topic} did not take a stranger's record")
    name = topic.removeprefix(scene.prefix)
    scene.faults.append(f"a stranger's Kafka transaction hangs on {name}-{partition}")
    try:
        yield
    finally:
        with contextlib.suppress(KafkaException):
            stranger.abort_transaction(15)
        del stranger


def hang_on_target(scene: Scene, seconds: float) -> None:
    """Its committed readers are held; what is for the other targets goes on."""
    with hanging(scene, scene.targets[0]):
        wait_flowing(scene, scene.targets[1:])
        scene.go_on(seconds)
    wait_flowing(scene, scene.targets)
    scene.wait_working(_WORKING_S)


def hang_on_log(scene: Scene, topic: str, seconds: float, *, takeover: bool) -> None:
    """On the half or op log of a partition, with or without a new owner meanwhile."""
    owner = scene.owner()
    partition = owner.working()[0]
    with hanging(scene, topic, partition):
        began_s = time.monotonic()
        if takeover:
            owner.kill()
            scene.faults.append(f"kill -9 of sidecar {owner.folder.name}")
        scene.go_on(seconds - (time.monotonic() - began_s))
    if takeover:
        do.restart_sidecar(scene, owner)
    wait_flowing(scene, scene.targets)
    scene.wait_working(_WORKING_S)


# -- rights ----------------------------------------------------------------------------------------


def revoke_write(scene: Scene, topic: str, others: Sequence[str], seconds: float) -> None:
    """Describe and Read are left, Write is not; later it is there again."""
    with rights.without_write(scene.stage.admin, topic):
        scene.faults.append(f"no right to write to {topic.removeprefix(scene.prefix)}")
        scene.go_on(2)
        wait_flowing(scene, others)
        scene.go_on(seconds)
        wait_flowing(scene, others)
    wait_flowing(scene, scene.targets, 45)
    scene.wait_working(_WORKING_S)


# -- limits ----------------------------------------------------------------------------------------


def lower_limit(scene: Scene, topic: str, flowing: Sequence[str], *, seconds: float) -> None:
    """`max.message.bytes` falls below what is undecided or parked there, and rises again."""
    scene.go_on(2)  # some large ones are undecided by then
    do.set_topic(scene, topic, "max.message.bytes", "2000")
    try:
        scene.go_on(3)
        wait_flowing(scene, flowing)
        wait_checked(scene)
        scene.go_on(seconds)
        wait_flowing(scene, flowing)
    finally:
        do.set_topic(scene, topic, "max.message.bytes", "1148588")
    scene.wait_working(_WORKING_S)


def stricter_owner(scene: Scene) -> None:
    """Only the one with smaller limits and fewer topics is left to own what others have taken."""
    other = scene.sidecars["b"]
    for topic in (scene.names.half, scene.names.parked):
        # It was the stricter one who has made them.
        do.set_topic(scene, topic, "max.message.bytes", "1148588")
    scene.go_on(3)
    do.kill_sidecar(scene, other)
    do.stop_sidecar(scene, other)
    wait_flowing(scene, scene.targets)


# -- links -----------------------------------------------------------------------------------------


def flap_while_made(scene: Scene, rounds: int = 6) -> None:
    """Two resets while an owner's producer is made; then the first EndTxn of it arrives late.

    It is held, with a reset, and let go in the middle of the next Kafka transaction: when that has
    begun and its forwards are stored, but not its done marks, whose way is slow.
    """
    links = scene.stage.links
    for _ in range(rounds):
        _reset_twice_while_made(scene)
        victim = scene.sidecars["a"]
        wait_until(victim.working, 20, what="sidecar a owns something")
        partition = (victim.working() or [0])[0]
        op_leader = links.proxies[scene.stage.leader_of(scene.names.op, partition)]
        op_leader.delay(_MARKS_MS, Direction.REQUEST, ApiKey.PRODUCE)
        ends = [p.hold(ApiKey.END_TXN, reset_client=True) for p in links.proxies.values()]
        wait_until(lambda: any(h.frames for h in ends), 20, interval_s=0.002, what="an EndTxn")  # noqa: B023 - asked within this round
        begun = links.passed(ApiKey.ADD_PARTITIONS_TO_TXN)
        with contextlib.suppress(TimeoutError):  # or it waits for somebody to commit
            wait_until(
                lambda: links.passed(ApiKey.ADD_PARTITIONS_TO_TXN) > begun,  # noqa: B023
                3,
                interval_s=0.002,
            )
            scene.go_on(_MARKS_MS / 3_000)
        for held in ends:
            held.release()
        scene.faults.append("reset twice while a producer was made, its EndTxn late")
        scene.go_on(1.0)
        links.heal()
    scene.wait_working(_WORKING_S)


def _reset_twice_while_made(scene: Scene, tries: int = 8) -> None:
    """Whoever hears that a connection has broken makes its producer anew."""
    links = scene.stage.links
    inits = [
        p.hold(ApiKey.INIT_PRODUCER_ID, count=2, reset_client=True) for p in links.proxies.values()
    ]
    try:
        for _ in range(tries):
            links.cut()
            with contextlib.suppress(TimeoutError):
                wait_until(lambda: sum(len(h.frames) for h in inits) >= 2, 2, interval_s=0.01)
                return
        raise LookupError("no producer was made")
    finally:
        for held in inits:
            held.drop()


def lag(scene: Scene, seconds: float, delay_ms: float = 1_500) -> None:
    """What an owner reads comes late, steadily: it is never up to date, and asks nevertheless."""
    scene.stage.links.delay(delay_ms, ApiKey.FETCH, Direction.RESPONSE)
    scene.faults.append(f"what is fetched comes {delay_ms:g} ms late for {seconds:g} s and longer")
    scene.go_on(4)
    wait_checked(scene)
    scene.go_on(seconds)
    wait_checked(scene)
    scene.stage.links.heal()
    scene.wait_working(_WORKING_S)


# -- applications ----------------------------------------------------------------------------------


def grow_slowly(scene: Scene, seconds: float) -> None:
    """Many transactions that are asked about while messages are still being added to them."""
    scene.faults.append("most transactions are older than the immunity before they are whole")
    scene.go_on(seconds)
