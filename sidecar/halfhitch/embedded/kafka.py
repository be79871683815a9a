"""A real Apache Kafka for development, demo, benchmarks and tests.

Owns `EmbeddedKafka`: one or three combined broker and controller nodes (KRaft) on loopback, with
small internal topics and short waits, each in a process that cannot outlive its owner. A broker is
known by its Kafka node id: 1, or 1 to 3.

Invariants: a folder is formatted once and keeps its cluster id and its nodes; one owner at a time
has the folder (a file lock that lasts as long as any of its servers); the quorum is static
(`controller.quorum.voters`), so that the ports may differ from run to run.

It does not create topics and does not hide Kafka's settings: `properties` overrides every one.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from halfhitch.embedded import kafka_files
from halfhitch.embedded.errors import EmbeddedError
from halfhitch.embedded.jars import kafka_jars
from halfhitch.embedded.java import find_java
from halfhitch.embedded.kafka_client import MetadataClient, coordinators_work, port_is_open
from halfhitch.embedded.kafka_image import Image, ensure_image
from halfhitch.embedded.ports import HeldPorts
from halfhitch.embedded.processes import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from halfhitch.embedded.jars import FetchProgress
    from halfhitch.embedded.java import Java

_START_S = 90.0
_STOP_S = 20.0
# Three nodes that leave together lose their quorum, and the last ones would wait for it in vain.
_STOP_TOGETHER_S = 6.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class ProxyRoute:
    """Where a proxy before one broker listens (`listen_port`) and forwards (`target_port`)."""

    broker_id: int
    listen_port: int
    target_port: int


@dataclass(frozen=True, slots=True)
class _Runtime:
    """What every broker is started with."""

    java: Java
    jars: Sequence[Path]
    image: Image


@dataclass(slots=True)
class _Node:
    """One broker and controller in a process of its own."""

    plan: kafka_files.NodePlan
    proxy: ProxyRoute | None
    process: ServerProcess | None = None

    @property
    def log(self) -> Path:
        return self.plan.folder / "server.log"


class EmbeddedKafka:
    """A Kafka cluster on this machine; use it as a context manager or call start and stop.

    brokers: 1 or 3. With 3, topics have three replicas and two must be in sync.
    folder: where data and logs live from run to run; None means a temporary one, removed by `stop`.
    ports: the client ports, one per broker; None means any free ones. They stay the same while the
        object is in use, also for a broker that is killed and restarted.
    properties: more server properties, or other values for those set here.
    proxy_listener: give every broker a second client listener that is advertised at another port,
        where a proxy may stand: clients that start at `proxy_bootstrap` pass through it only.
    heap_mib: heap of each broker.
    short_lived: compile less; starts sooner and takes half the CPU in its first minute, but has
        about a seventh less throughput in the long run. For tests, not for benchmarks.
    on_progress: called while jars are downloaded (first start on a machine only).
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        folder: Path | str | None = None,
        ports: Sequence[int] | None = None,
        properties: Mapping[str, str] | None = None,
        proxy_listener: bool = False,
        heap_mib: int = 512,
        short_lived: bool = False,
        on_progress: Callable[[FetchProgress], None] | None = None,
        start_deadline_s: float = _START_S,
    ) -> None:
        if brokers not in (1, 3):
            raise ValueError(f"an embedded Kafka has 1 or 3 brokers, not {brokers}")
        if ports is not None and len(ports) != brokers:
            raise ValueError(f"{brokers} broker(s) need {brokers} port(s), not {len(ports)}")
        self.broker_ids = tuple(range(1, brokers + 1))
        self._given_folder = Path(folder).absolute() if folder is not None else None
        self._wanted_ports = tuple(ports) if ports is not None else None
        self._properties = dict(properties or {})
        self._proxy_listener = proxy_listener
        self._heap_mib = heap_mib
        self._short_lived = short_lived
        self._on_progress = on_progress
        self._start_deadline_s = start_deadline_s
        self._ports = HeldPorts()
        self._folder: Path | None = None
        self._claim: kafka_files.FolderClaim | None = None
        self._runtime: _Runtime | None = None
        self._nodes: dict[int, _Node] = {}

    @property
    def bootstrap(self) -> str:
        """The value for `bootstrap.servers`."""
        return _addresses(node.plan.client_port for node in self._started().values())

    @property
    def proxies(self) -> tuple[ProxyRoute, ...]:
        """What a proxy has to listen on and forward to; empty without `proxy_listener`."""
        return tuple(node.proxy for node in self._started().values() if node.proxy is not None)

    @property
    def proxy_bootstrap(self) -> str:
        """The value for `bootstrap.servers` of clients that must pass through the proxies."""
        if not self._proxy_listener:
            raise RuntimeError("this Kafka was made without proxy_listener=True")
        return _addresses(route.listen_port for route in self.proxies)

    @property
    def folder(self) -> Path:
        """Where data and logs are."""
        if self._folder is None:
            raise RuntimeError("the embedded Kafka has not been started")
        return self._folder

    @property
    def cluster_id(self) -> str:
        """Kafka's cluster id, kept as long as the folder is."""
        return kafka_files.read_cluster(self.folder).cluster_id

    def start(self) -> Self:
        """Start every broker and wait until clients can use the cluster."""
        if self._nodes:
            raise RuntimeError("the embedded Kafka is already started")
        try:
            jars = kafka_jars(on_progress=self._on_progress)
            java = find_java()
            self._runtime = _Runtime(java, jars, ensure_image(java, jars))
            self._claim_folder()
            self._prepare_nodes()
            for broker_id in self.broker_ids:
                self._launch(broker_id)
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End all brokers in good order, by force if it takes long; remove a temporary folder."""
        processes = [node.process for node in self._nodes.values() if node.process is not None]
        is_temporary = self._given_folder is None
        for process in processes:
            # Data that is deleted next needs no good order.
            if is_temporary:
                process.kill()
            else:
                process.request_termination()
        grace_s = _STOP_S if len(processes) == 1 else _STOP_TOGETHER_S
        deadline_s = time.monotonic() + grace_s
        for process in processes:
            process.terminate(grace_s=max(0.0, deadline_s - time.monotonic()))
        self._nodes = {}
        self._ports.close()
        if self._claim is not None:
            self._claim.release()
            self._claim = None
        if is_temporary and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def kill_broker(self, broker_id: int = 1) -> None:
        """SIGKILL; returns when the process is gone. Its port stays kept for `restart_broker`."""
        self._process(broker_id).kill()

    def stop_broker(self, broker_id: int = 1) -> None:
        """End one broker in good order (it hands over its leaderships first)."""
        self._process(broker_id).terminate(grace_s=_STOP_S)

    def pause_broker(self, broker_id: int = 1) -> None:
        """SIGSTOP: its connections stay open and nothing is answered."""
        self._process(broker_id).pause()

    def resume_broker(self, broker_id: int = 1) -> None:
        """Go on after `pause_broker`."""
        self._process(broker_id).resume()

    def restart_broker(self, broker_id: int = 1, *, wait_until_ready: bool = True) -> None:
        """Start a broker again on its ports and data, after ending it if it still runs."""
        self._process(broker_id).terminate(grace_s=_STOP_S)
        self._launch(broker_id)
        if wait_until_ready:
            self.wait_until_ready([broker_id])

    def broker_ending(self, broker_id: int = 1) -> str | None:
        """How it ended, and where its log is; None while it runs."""
        return self._process(broker_id).ending

    def broker_is_running(self, broker_id: int = 1) -> bool:
        """Whether the process exists (a paused one does)."""
        return self._process(broker_id).is_running

    def broker_pid(self, broker_id: int = 1) -> int:
        """The process id of a broker's Java."""
        return self._process(broker_id).pid

    def broker_log(self, broker_id: int = 1) -> Path:
        """The log file of a broker."""
        return self._node(broker_id).log

    def wait_until_ready(self, broker_ids: Sequence[int] | None = None) -> None:
        """Wait until the given brokers (default: all) serve clients, as seen by a client.

        Then groups and transactions work as well, unless other brokers that they need are down.
        """
        wanted = self.broker_ids if broker_ids is None else tuple(broker_ids)
        ports = [self._node(i).plan.client_port for i in wanted]
        deadline_s = time.monotonic() + self._start_deadline_s
        # The port first: librdkafka backs off when it is refused.
        for broker_id, port in zip(wanted, ports, strict=True):
            self._await(partial(port_is_open, port), f"port {port} opens", [broker_id], deadline_s)
        client = MetadataClient(_addresses(ports))
        self._await(
            lambda: set(wanted) <= client.known_broker_ids(self.cluster_id),
            f"brokers {list(wanted)} are registered",
            wanted,
            deadline_s,
        )
        if wanted == self.broker_ids:
            self._await(
                lambda: coordinators_work(ports[0]),
                "the topics __consumer_offsets and __transaction_state exist",
                wanted,
                deadline_s,
            )

    def _started(self) -> dict[int, _Node]:
        if not self._nodes:
            raise RuntimeError("the embedded Kafka has not been started")
        return self._nodes

    def _node(self, broker_id: int) -> _Node:
        try:
            return self._started()[broker_id]
        except KeyError:
            raise ValueError(
                f"there is no broker {broker_id}; there are {list(self.broker_ids)}"
            ) from None

    def _process(self, broker_id: int) -> ServerProcess:
        process = self._node(broker_id).process
        if process is None:
            raise RuntimeError(f"broker {broker_id} has not been started")
        return process

    def _claim_folder(self) -> None:
        if self._given_folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="halfhitch-kafka-"))
        else:
            self._folder = self._given_folder
            self._folder.mkdir(parents=True, exist_ok=True)
        self._claim = kafka_files.FolderClaim(self._folder)

    def _prepare_nodes(self) -> None:
        cluster = kafka_files.ensure_cluster(self.folder, len(self.broker_ids))
        voters = {broker_id: self._ports.take() for broker_id in self.broker_ids}
        for broker_id in self.broker_ids:
            proxy = None
            if self._proxy_listener:
                proxy = ProxyRoute(broker_id, self._ports.take(), self._ports.take())
            plan = kafka_files.NodePlan(
                broker_id=broker_id,
                folder=self.folder / f"broker-{broker_id}",
                client_port=self._ports.take()
                if self._wanted_ports is None
                else self._ports.hold(self._wanted_ports[broker_id - 1]),
                voters=voters,
                proxy_ports=(proxy.target_port, proxy.listen_port) if proxy else None,
            )
            kafka_files.write_properties(plan, self._properties)
            kafka_files.write_identity(
                plan.folder, broker_id, cluster.cluster_id, self._with().image.checkpoint
            )
            self._nodes[broker_id] = _Node(plan, proxy)

    def _with(self) -> _Runtime:
        if self._runtime is None:
            raise RuntimeError("the embedded Kafka has not been started")
        return self._runtime

    def _launch(self, broker_id: int) -> None:
        node = self._node(broker_id)
        runtime = self._with()
        kafka_files.rotate_log(node.log)
        node.process = ServerProcess(
            f"embedded Kafka broker {broker_id}",
            kafka_files.server_command(
                runtime.java,
                runtime.jars,
                node.plan.folder,
                heap_mib=self._heap_mib,
                short_lived=self._short_lived,
                class_archive=runtime.image.class_archive,
            ),
            log=node.log,
            environment=kafka_files.server_environment(),
            grace_s=_STOP_S,
            sweep=self._folder if self._given_folder is None else None,
            keep_open=[self._claim.descriptor] if self._claim is not None else [],
        )

    def _await(
        self,
        condition: Callable[[], bool],
        what: str,
        broker_ids: Sequence[int],
        deadline_s: float,
    ) -> None:
        while not condition():
            for broker_id in broker_ids:
                process = self._process(broker_id)
                if not process.is_running:
                    raise self._failure(
                        f"broker {broker_id} ended with status {process.exit_status} before {what}",
                        [broker_id],
                    )
            if time.monotonic() > deadline_s:
                raise self._failure(
                    f"{self._start_deadline_s:g} s have passed before {what}", broker_ids
                )
            self._process(broker_ids[0]).wait(at_most_s=_POLL_S)

    def _failure(self, what: str, broker_ids: Sequence[int]) -> EmbeddedError:
        logs = "\n".join(
            f"--- {self._node(i).log}\n{self._process(i).log_tail()}" for i in broker_ids
        )
        return EmbeddedError(
            f"the embedded Kafka did not start: {what}. It runs on {self._with().java.executable}"
            f" with {self._heap_mib} MiB of heap per broker. The end of the log says why:\n{logs}"
        )


def _addresses(ports: Iterable[int]) -> str:
    return ",".join(f"127.0.0.1:{port}" for port in ports)
