"""What an embedded Kafka is made of: its folder, its settings and its command line.

Owns the layout of the folder (`cluster.json`, `broker-N/{data,server.properties,server.log}`), the
server properties, a node's identity and the JVM's flags.

A node counts as formatted when `meta.properties` is there; that file is written last.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from halfhitch.embedded.errors import EmbeddedError
from halfhitch.embedded.jars import write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from halfhitch.embedded.java import Java

_CLAIM_S = 30.0
_LOG_BYTES_MAX = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a folder remembers of its cluster."""

    cluster_id: str
    broker_count: int


@dataclass(frozen=True, slots=True)
class NodePlan:
    """The places of one node: its folder and every port its properties name."""

    broker_id: int
    folder: Path
    client_port: int
    voters: Mapping[int, int]  # controller port by node id
    proxy_ports: tuple[int, int] | None  # (bound by the broker, advertised)


class FolderClaim:
    """The right to use a folder; lasts until this and every server that inherited it has ended."""

    def __init__(self, folder: Path) -> None:
        self.descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline_s = time.monotonic() + _CLAIM_S
        while True:
            try:
                fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                # Servers of an owner that was killed need some seconds to end.
                if time.monotonic() > deadline_s:
                    os.close(self.descriptor)
                    raise EmbeddedError(
                        f"the folder {folder} is used by another embedded Kafka. Stop that one"
                        f" (`fuser {folder / '.lock'}` names its processes) or give another folder."
                    ) from None
                time.sleep(0.1)

    def release(self) -> None:
        """Give up this process's share of the claim."""
        os.close(self.descriptor)


def ensure_cluster(folder: Path, broker_count: int) -> Cluster:
    """Read what the folder is, or make it a new cluster."""
    path = folder / "cluster.json"
    if not path.exists():
        cluster = {"cluster_id": new_id(), "broker_count": broker_count}
        write_atomically(path, json.dumps(cluster).encode())
    known = read_cluster(folder)
    if known.broker_count != broker_count:
        raise EmbeddedError(
            f"the folder {folder} holds a Kafka of {known.broker_count} broker(s), and"
            f" {broker_count} were asked for. Ask for {known.broker_count}, or give another folder."
        )
    return known


def read_cluster(folder: Path) -> Cluster:
    """What the folder remembers."""
    path = folder / "cluster.json"
    try:
        content = json.loads(path.read_text("utf-8"))
        return Cluster(str(content["cluster_id"]), int(content["broker_count"]))
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise EmbeddedError(
            f"{path} does not describe an embedded Kafka ({problem}). Give another folder, or"
            " delete this one if its data may go."
        ) from problem


def write_properties(plan: NodePlan, more: Mapping[str, str]) -> None:
    """Write `server.properties` of one node."""
    if "," in str(plan.folder):
        raise EmbeddedError(
            f"Kafka takes the comma in {plan.folder} for the end of a path. Give another folder."
        )
    plan.folder.mkdir(parents=True, exist_ok=True)
    lines = (f"{name}={_escaped(value)}\n" for name, value in properties(plan, more).items())
    write_atomically(plan.folder / "server.properties", "".join(lines).encode("latin-1"))


def properties(plan: NodePlan, more: Mapping[str, str]) -> dict[str, str]:
    """The server properties of one node; `more` has the last word."""
    replicas = len(plan.voters)
    in_sync = 2 if replicas == 3 else 1
    controller_port = plan.voters[plan.broker_id]
    listeners = {"PLAINTEXT": plan.client_port, "CONTROLLER": controller_port}
    advertised = {"PLAINTEXT": plan.client_port}
    if plan.proxy_ports is not None:
        listeners["PROXY"], advertised["PROXY"] = plan.proxy_ports
    return {
        "process.roles": "broker,controller",
        "node.id": str(plan.broker_id),
        "controller.quorum.voters": ",".join(
            f"{node}@127.0.0.1:{port}" for node, port in plan.voters.items()
        ),
        "listeners": _listeners(listeners),
        "advertised.listeners": _listeners(advertised),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(plan.folder / "data"),
        "auto.create.topics.enable": "false",
        "num.partitions": "1",
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        "group.initial.rebalance.delay.ms": "0",
        # Open transactions of a dead producer are noticed at once and not after ten seconds.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        # A dead broker is noticed in two seconds instead of nine, and a restarted one is let in
        # as soon as its former life has been noticed to be over.
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
        # Nodes that start together elect at once; a living leader is given up no sooner for it.
        "controller.quorum.election.timeout.ms": "300",
        "controller.quorum.election.backoff.max.ms": "300",
        # The default, 128 MiB, would be a quarter of the heap for compacting tiny topics.
        "log.cleaner.dedupe.buffer.size": "16777216",
        **more,
    }


def write_identity(folder: Path, broker_id: int, cluster_id: str, checkpoint: bytes) -> None:
    """Make the node's data folder part of the cluster, once in its life.

    This is what Kafka's format tool does; the tool itself would start a Java for every node.
    `checkpoint` holds the features that the cluster begins with.
    """
    data = folder / "data"
    meta = data / "meta.properties"
    if meta.exists():
        return
    data.mkdir(parents=True, exist_ok=True)
    write_atomically(data / "bootstrap.checkpoint", checkpoint)
    write_atomically(
        meta,
        f"version=1\ncluster.id={cluster_id}\nnode.id={broker_id}\n"
        f"directory.id={new_id()}\n".encode(),
    )


def server_command(
    java: Java,
    jars: Sequence[Path],
    folder: Path,
    *,
    heap_mib: int = 512,
    short_lived: bool = False,
    class_archive: Path | None = None,
) -> list[str]:
    """The command line of one broker."""
    return [
        str(java.executable),
        f"-Xmx{heap_mib}m",
        "-XX:+UseSerialGC",
        # The optimizing compiler pays back after minutes; a test's broker does not live so long.
        *(["-XX:TieredStopAtLevel=1"] if short_lived else []),
        *([f"-XX:SharedArchiveFile={class_archive}"] if class_archive else []),
        # No file in /tmp that outlives a killed JVM.
        "-XX:-UsePerfData",
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        "-Dorg.slf4j.simpleLogger.showThreadName=false",
        "-cp",
        os.pathsep.join(map(str, jars)),
        "kafka.Kafka",
        str(folder / "server.properties"),
    ]


def server_environment() -> dict[str, str]:
    """The environment of a broker: ours, with a locale in which Java can write every path."""
    return {**os.environ, "LC_ALL": "C.UTF-8"}


def rotate_log(log: Path) -> None:
    """Keep a log that is appended to from run to run within bounds."""
    if log.exists() and log.stat().st_size > _LOG_BYTES_MAX:
        log.replace(log.with_suffix(".log.1"))


def new_id() -> str:
    """A random id as Kafka writes them: 22 characters that do not begin with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _listeners(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


def _escaped(value: str) -> str:
    """A value as a Java properties file wants it: ASCII, backslashes doubled."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n")
    units = text.encode("utf-16-be")
    numbers = [int.from_bytes(units[i : i + 2]) for i in range(0, len(units), 2)]
    return "".join(chr(n) if n < 128 else f"\\u{n:04x}" for n in numbers)
