"""The two servers: RocketMQ 5.5.0, and Half Hitch with its Kafka. Each is awake only in its turn.

Asleep, RocketMQ and Kafka stand still (SIGSTOP), so that what Java has compiled stays, and Half
Hitch, which compiles nothing, is stopped in good order and started again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Protocol
from urllib.error import URLError
from urllib.request import urlopen

from bench.children import BenchmarkError, plain_environment
from bench.rocketmq.plan import COMPILED, HALF_HITCH, NATIVE, ROCKETMQ
from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis, ServerProcess
from halfhitch.embedded.ports import HeldPorts
from halfhitch.wire.topics import InternalTopics
from harness.kafka import create_topics, wait_until
from harness.rocketmq import RocketMQ

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from bench.rocketmq.plan import Plan

_READY_S = 60.0
_SETTLED_S = 120.0
_STOP_S = 20.0
_QUIET_S = 3.0
_PREFIX = "bench-"
_HALF_HITCH = (sys.executable, "-m", "halfhitch_cli")


class Side(Protocol):
    """A server that a load may be pointed at. Closed by the stack it was made with."""

    name: str

    def wake(self) -> None:
        """Be ready for a load."""

    def sleep(self) -> None:
        """Use no processor."""

    @property
    def address(self) -> str:
        """What the load is told as its name server."""

    @property
    def pids(self) -> dict[str, int]:
        """Who belongs to it; one is the `broker`."""


class RocketMQSide:
    """Name server and broker, flushing as RocketMQ does by default: not before it answers."""

    name = ROCKETMQ

    def __init__(self, stack: ExitStack, plan: Plan, folder: Path) -> None:
        self._server = RocketMQ(
            folder,
            heap_mib=plan.heap_mib,
            # A broker that stands still is to be in the name server's list when it goes on.
            properties={"brokerNotActiveTimeoutMillis": "3600000"},
        )
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.enter_context(self._server)

    @property
    def address(self) -> str:
        """Of the name server."""
        return self._server.name_server

    @property
    def pids(self) -> dict[str, int]:
        """Both."""
        return {"broker": self._server.pids["broker"], "names": self._server.pids["name_server"]}

    def wake(self) -> None:
        """Go on."""
        for pid in self.pids.values():
            os.kill(pid, signal.SIGCONT)

    def sleep(self) -> None:
        """Stand still."""
        for pid in self.pids.values():
            os.kill(pid, signal.SIGSTOP)


class HalfHitchSide:
    """Kafka with one broker, and `halfhitch serve` once, or twice when the owner is apart."""

    name = HALF_HITCH

    def __init__(self, stack: ExitStack, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        ports = stack.enter_context(closing(HeldPorts()))
        self._port = ports.take()
        self._admin_ports = {"sidecar": ports.take(), "owner": ports.take()}
        self.http_port = ports.take()
        self._running: dict[str, ServerProcess] = {}
        # A broker that stands still is not to be taken for dead when it goes on.
        patient = {"broker.session.timeout.ms": "3600000"}
        kafka = EmbeddedKafka(heap_mib=plan.heap_mib, properties=patient)
        self.kafka = stack.enter_context(kafka)
        create_topics(self.kafka.bootstrap, {plan.topic: plan.target_partitions})
        # A check goes from the owner's process to the producer's connection by way of Redis.
        self._redis = stack.enter_context(EmbeddedRedis()) if plan.owner_apart else None
        stack.callback(self._stop_sidecars)

    @property
    def address(self) -> str:
        """Of the door, which is name server and broker in one."""
        return f"127.0.0.1:{self._port}"

    @property
    def pids(self) -> dict[str, int]:
        """All that are running."""
        pids = {"broker": self.kafka.broker_pid()}
        if self._redis is not None:
            pids["redis"] = self._redis.pid
        return pids | {name: process.pid for name, process in self._running.items()}

    @property
    def sidecar_pids(self) -> dict[str, int]:
        """Those of Half Hitch."""
        return {name: process.pid for name, process in self._running.items()}

    @property
    def half_topic(self) -> str:
        """Where halves are stored."""
        return InternalTopics(_PREFIX).half

    def wake(self) -> None:
        """Kafka goes on, Half Hitch starts."""
        self.kafka.resume_broker()
        self.kafka.wait_until_ready()
        for name in ("sidecar", "owner") if self._plan.owner_apart else ("sidecar",):
            self._running[name] = self._serve(name)
        wait_until(self._is_ready, _READY_S, interval_s=0.1, what=self._say_logs)

    def sleep(self) -> None:
        """Half Hitch ends in good order, Kafka stands still."""
        self._stop_sidecars()
        self.kafka.pause_broker()

    def wait_settled(self) -> int:
        """Until all decisions are carried out and nothing more arrives; gives who is pending."""
        before: list[Any] = []
        since_s = time.monotonic()

        def settled() -> bool:
            nonlocal before, since_s
            partitions = self._partitions()
            now = [(p["half_position"], p["op_position"], p["pending_count"]) for p in partitions]
            at_work = any(p["decided_count"] + p["early_count"] for p in partitions)
            if at_work or now != before:
                before, since_s = now, time.monotonic()
            # What is not read yet is not known to be undone: an owner may be slow.
            return time.monotonic() - since_s > _QUIET_S

        wait_until(settled, _SETTLED_S, interval_s=0.2, what="all decisions carried out")
        return sum(partition["pending_count"] for partition in self._partitions())

    def count_of(self, metric: str) -> int:
        """A counter without labels, of all processes since they were woken."""
        counts = []
        for name in self._running:
            text = (_answer(f"{self._admin(name)}/metrics") or b"").decode()
            counts += re.findall(rf"^{metric} ([\d.e+]+)$", text, re.MULTILINE)
        if not counts:
            raise BenchmarkError(f"{metric} is not among the metrics")
        return sum(int(float(count)) for count in counts)

    @property
    def _owner(self) -> str:
        return "owner" if self._plan.owner_apart else "sidecar"

    def _stop_sidecars(self) -> None:
        for process in self._running.values():
            process.request_termination()
        for process in self._running.values():
            process.terminate(grace_s=_STOP_S)
        self._running.clear()

    def _serve(self, name: str) -> ServerProcess:
        apart = self._plan.owner_apart
        has_door, owns = name == "sidecar", name == "owner" or not apart
        settings = {
            "kafka.bootstrap": self.kafka.bootstrap,
            "handle.key": "only-for-the-benchmark-0123456789",
            "http.port": str(self.http_port) if has_door else "0",
            "admin.port": str(self._admin_ports[name]),
            "instance.id": f"bench-{name}",
            "topics.prefix": _PREFIX,
            "topics.create": "true",
            "topics.replication_factor": "1",
            "topics.partitions": str(self._plan.half_partitions),
            "owner.enabled": str(owns).lower(),
            "checks.interval_s": "30",  # RocketMQ's
            "log.level": "warning",
        }
        if has_door:
            settings |= {"rocketmq.enabled": "true", "rocketmq.port": str(self._port)}
        if self._redis is not None:
            settings["redis.url"] = self._redis.url
        settings |= dict(setting.split("=", 1) for setting in self._plan.settings)
        environment = {
            "HALFHITCH_" + key.replace(".", "_").upper(): value for key, value in settings.items()
        }
        return ServerProcess(
            f"halfhitch serve ({name})",
            [*_HALF_HITCH, "serve"],
            log=self._folder / f"{name}.log",
            environment=_environment(self._plan, **environment),
        )

    def _is_ready(self) -> bool:
        for process in self._running.values():
            if not process.is_running:
                raise BenchmarkError(f"{process.name} has ended:\n{process.log_tail()}")
        now = self._partitions()
        return (
            len(now) == self._plan.half_partitions
            and all(partition["phase"] == "working" for partition in now)
            and _answer(f"{self._admin('sidecar')}/readyz") is not None
        )

    def _partitions(self) -> list[dict[str, Any]]:
        status = _answer(f"{self._admin(self._owner)}/v1/status")
        return list(json.loads(status)["partitions"]) if status else []

    def _admin(self, name: str) -> str:
        return f"http://127.0.0.1:{self._admin_ports[name]}"

    def _say_logs(self) -> str:
        logs = "\n".join(process.log_tail() for process in self._running.values())
        return f"Half Hitch's readiness; it said:\n{logs}\nSo readiness"


def version(plan: Plan) -> str:
    """Of Half Hitch as it will be run, in its own words."""
    told = subprocess.run(
        [*_HALF_HITCH, "--version"],
        env=_environment(plan),
        check=True,
        capture_output=True,
        text=True,
    )
    return told.stdout.splitlines()[0].removeprefix("halfhitch ")


def _environment(plan: Plan, **more: str) -> dict[str, str]:
    folders = [str(COMPILED)] * plan.is_compiled + [str(NATIVE)] * plan.is_native
    first = {"PYTHONPATH": os.pathsep.join(folders)} if folders else {}
    return plain_environment(**first, **more)


def _answer(url: str) -> bytes | None:
    try:
        with urlopen(url, timeout=5.0) as response:
            answer: bytes = response.read()
            return answer
    except (URLError, OSError):
        return None
