"""Both coordinators with all that they need: dtm on Redis and a subscriber, Half Hitch on Kafka.

Each is awake only in its turn: dtm, Redis, the subscriber and Kafka stand still (SIGSTOP) in the
other's, Half Hitch is stopped and started, as in bench/rocketmq.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
from contextlib import closing
from typing import TYPE_CHECKING, Protocol
from urllib.error import URLError
from urllib.request import urlopen

from bench.children import BenchmarkError, Child, plain_environment
from bench.dtm.account import place_of_body, place_of_gid
from bench.dtm.plan import DTM, DTM_VERSION, HALF_HITCH, PROGRAMS
from bench.rocketmq.plan import read_plan as rocketmq_plan
from bench.rocketmq.sides import HalfHitchSide
from halfhitch.embedded import EmbeddedRedis, ServerProcess
from halfhitch.embedded.ports import HeldPorts
from harness.kafka import create_topics, each_record, wait_until

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from bench.dtm.account import Place
    from bench.dtm.plan import Plan

_READY_S = 30.0
_SETTLED_S = 120.0
_QUIET_S = 2.0
_READ_S = 300.0


class Side(Protocol):
    """A coordinator that wrk may be pointed at. Closed by the stack it was made with."""

    name: str
    script: str

    @property
    def argument(self) -> str:
        """The last one of its script."""

    def wake(self) -> None:
        """Be ready for a load."""

    def sleep(self) -> None:
        """Use no processor."""

    @property
    def url(self) -> str:
        """Of its door."""

    @property
    def pids(self) -> dict[str, int]:
        """All servers."""

    def begin(self) -> None:
        """A load begins."""

    def settle(self) -> None:
        """Until everything that was committed is carried out."""

    def seen(self) -> list[Place]:
        """What came out since `begin`."""


class DtmSide:
    """dtm, Redis as its store, and a subscriber, which its messages go to."""

    name = DTM
    script = "dtm.lua"

    def __init__(self, stack: ExitStack, plan: Plan, folder: Path) -> None:
        self._subscriber = stack.enter_context(
            Child("dtm.subscriber", {}, log=folder / "subscriber.log")
        )
        self._port = int(self._subscriber.order({})["port"])
        self._redis = stack.enter_context(EmbeddedRedis())
        if plan.is_append_only:
            self._tell_redis("CONFIG SET appendonly yes")
        ports = stack.enter_context(closing(HeldPorts()))
        self._http_port = ports.take()
        configuration = folder / "dtm.yml"
        configuration.write_text(
            f"Store:\n  Driver: redis\n  Host: 127.0.0.1\n  Port: {self._redis.port}\n"
            f"HttpPort: {self._http_port}\nGrpcPort: {ports.take()}\nJsonRpcPort: {ports.take()}\n"
            "LogLevel: warn\n"
        )
        self._server = ServerProcess(
            "dtm",
            [str(PROGRAMS / f"dtm-{DTM_VERSION}"), "-c", str(configuration)],
            log=folder / "dtm.log",
            environment=plain_environment(GIN_MODE="release"),
        )
        stack.callback(self._server.terminate, grace_s=10.0)
        stack.callback(self.wake)  # what stands still does not end
        wait_until(self._is_ready, _READY_S, interval_s=0.1, what=self._server.log_tail)

    @property
    def url(self) -> str:
        """Of its HTTP door."""
        return f"http://127.0.0.1:{self._http_port}"

    @property
    def argument(self) -> str:
        """Where the subscriber is."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def pids(self) -> dict[str, int]:
        """All three."""
        return {
            "dtm": self._server.pid,
            "Redis": self._redis.pid,
            "subscriber": self._subscriber.pid,
        }

    def wake(self) -> None:
        """Go on."""
        for pid in self.pids.values():
            os.kill(pid, signal.SIGCONT)

    def sleep(self) -> None:
        """Stand still."""
        for pid in self.pids.values():
            os.kill(pid, signal.SIGSTOP)

    def begin(self) -> None:
        """Redis is emptied: dtm keeps what is finished for a day, and memory is not what counts."""
        self._tell_redis("FLUSHALL")
        self._subscriber.order({"take": True})

    def settle(self) -> None:
        """Until no branch has been called for a while."""
        before = -1

        def is_quiet() -> bool:
            nonlocal before
            last, before = before, int(self._subscriber.order({"count": True})["count"])
            return last == before

        wait_until(is_quiet, _SETTLED_S, interval_s=_QUIET_S, what="all branches called")

    def seen(self) -> list[Place]:
        """Each call of a branch."""
        return [place_of_gid(gid) for gid in self._subscriber.order({"take": True})["gids"]]

    def _is_ready(self) -> bool:
        if not self._server.is_running:
            raise BenchmarkError(f"dtm has ended:\n{self._server.log_tail()}")
        try:
            with urlopen(f"{self.url}/api/dtmsvr/version", timeout=2.0) as response:
                return bool(response.status == 200)
        except (URLError, OSError):
            return False

    def _tell_redis(self, command: str) -> None:
        with socket.create_connection(("127.0.0.1", self._redis.port), timeout=60) as connection:
            connection.sendall(f"{command}\r\n".encode())
            answer = connection.recv(256)
        if not answer.startswith(b"+OK"):
            raise BenchmarkError(f"Redis answered {command} with {answer!r}")


class DataDoorSide:
    """Half Hitch as bench/rocketmq starts it; wrk comes over TCP. Each load has its own topic."""

    name = HALF_HITCH
    script = "halfhitch.lua"

    def __init__(self, stack: ExitStack, plan: Plan, folder: Path) -> None:
        words = [f"--set={setting}" for setting in plan.settings]
        words += ["--compiled"] * plan.is_compiled + ["--native"] * plan.is_native
        self._plan = rocketmq_plan(words)
        self._side = HalfHitchSide(stack, self._plan, folder)
        self._numbers = itertools.count(1)
        self.argument = ""
        self.wake, self.sleep = self._side.wake, self._side.sleep

    @property
    def url(self) -> str:
        """Of the data door."""
        return f"http://127.0.0.1:{self._side.http_port}"

    @property
    def pids(self) -> dict[str, int]:
        """Kafka and the sidecar."""
        return {"Kafka" if n == "broker" else n: pid for n, pid in self._side.pids.items()}

    def begin(self) -> None:
        """A topic of its own, as large as bench/rocketmq's."""
        self.argument = f"bench-target-{next(self._numbers)}"
        topics = {self.argument: self._plan.target_partitions}
        create_topics(self._side.kafka.bootstrap, topics)

    def settle(self) -> None:
        """Until all decisions are carried out."""
        self._side.wait_settled()

    def seen(self) -> list[Place]:
        """What a read_committed reader gets."""
        bootstrap = self._side.kafka.bootstrap
        records = each_record(bootstrap, self.argument, deadline_s=_READ_S)
        return [place_of_body(record.value or b"") for record in records]
