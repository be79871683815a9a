"""What stands around a load: Kafka, the topics, the sidecar as its users start it."""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.error import URLError
from urllib.request import urlopen

from bench.children import BenchmarkError, plain_environment
from halfhitch.embedded import ServerProcess
from harness.kafka import create_topics

if TYPE_CHECKING:
    from types import TracebackType

TARGET = "bench-target"
RAW_HALF = "bench-raw-half"
RAW_OP = "bench-raw-op"
PARTITION_COUNT = 4
_READY_S = 300.0  # a million undecided are taken over first
_STOP_S = 20.0


def make_topics(bootstrap: str) -> None:
    """The target topic, and those of raw Kafka; the coordinator makes its own."""
    create_topics(bootstrap, dict.fromkeys((TARGET, RAW_HALF, RAW_OP), PARTITION_COUNT))


class Sidecar:
    """`halfhitch serve` on a unix socket and a TCP port, owner of all half partitions."""

    def __init__(
        self, bootstrap: str, folder: Path, prefix: str, *, awaits_all: bool = True, **more: str
    ) -> None:
        """`more` are further settings, and what else its environment is to have.

        Not `awaits_all`: others own some of its half partitions.
        """
        self._awaits_all = awaits_all
        self._partition_count = int(more.get("HALFHITCH_TOPICS_PARTITIONS", PARTITION_COUNT))
        self._admin_port = _free_port()
        self._http_port = _free_port()
        instance = more.get("HALFHITCH_INSTANCE_ID", "bench")
        self._socket = folder / f"{prefix}{instance}.sock"
        self._process = ServerProcess(
            "sidecar",
            [sys.executable, "-m", "halfhitch_cli", "serve"],
            log=folder / "sidecar.log",
            environment=plain_environment(
                **{
                    "HALFHITCH_KAFKA_BOOTSTRAP": bootstrap,
                    "HALFHITCH_HANDLE_KEY": "only-for-the-benchmark-0123456789",
                    "HALFHITCH_HTTP_PORT": str(self._http_port),
                    "HALFHITCH_HTTP_SOCKET": str(self._socket),
                    "HALFHITCH_ADMIN_PORT": str(self._admin_port),
                    "HALFHITCH_INSTANCE_ID": instance,
                    "HALFHITCH_TOPICS_PREFIX": prefix,
                    "HALFHITCH_TOPICS_CREATE": "true",
                    "HALFHITCH_TOPICS_REPLICATION_FACTOR": "1",
                    "HALFHITCH_LOG_LEVEL": "warning",
                    **more,
                }
            ),
        )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        try:
            if self._awaits_all:
                self._await_ready()
        except BaseException:
            self._process.terminate(grace_s=_STOP_S)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate(grace_s=_STOP_S)

    def address(self, kind: str) -> str:
        """For the load; `kind` is unix or tcp."""
        return f"unix:{self._socket}" if kind == "unix" else f"tcp:127.0.0.1:{self._http_port}"

    @property
    def admin(self) -> str:
        """URL of the admin door."""
        return f"http://127.0.0.1:{self._admin_port}"

    def _await_ready(self) -> None:
        give_up_s = time.monotonic() + _READY_S
        while not self._is_ready():
            if not self._process.is_running or time.monotonic() > give_up_s:
                raise BenchmarkError(f"the sidecar did not start:\n{self._process.log_tail()}")
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        return self.working_count() == self._partition_count

    def working_count(self) -> int:
        """Half partitions that it works on."""
        status = _answer(f"{self.admin}/v1/status")
        partitions = status["partitions"] if status else []
        return sum(partition["phase"] == "working" for partition in partitions)

    def counts(self) -> dict[str, float]:
        """Every number of `/metrics` by its name; those that differ in labels are added up."""
        with urlopen(f"{self.admin}/metrics", timeout=10.0) as response:
            lines = response.read().decode().splitlines()
        found: dict[str, float] = {}
        for line in lines:
            if line and line[0] != "#":
                name = line.partition("{")[0].split()[0]
                number = line.rpartition("}")[2].split()[-1]
                found[name] = found.get(name, 0.0) + float(number)
        return found


def _answer(url: str) -> Any:
    try:
        with urlopen(url, timeout=2.0) as response:
            return json.loads(response.read())
    except (URLError, OSError, ValueError):
        return None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
