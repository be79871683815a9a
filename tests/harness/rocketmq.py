"""A real RocketMQ 5.5.0 to compare with: name server and broker from Maven Central's jars.

    with RocketMQ(transaction_timeout_ms=3_000, check_interval_ms=2_000, check_max=5) as rocketmq:
        producer.setNamesrvAddr(rocketmq.name_server)

Owns the jars' class path (conformance/broker/pom.xml says which; Maven fetches them into its
own repository and is asked once per machine), the two processes, their configuration and their
ports. Everything lies in one folder, logs included. Both end with the process that started them.

It knows nothing of messages: RocketMQ's clients see to those.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

from halfhitch.embedded import EmbeddedError, ServerProcess, cache_root, find_java
from halfhitch.embedded.ports import HeldPorts
from harness.kafka import wait_until
from harness.places import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

VERSION = "5.5.0"
_POM = ROOT / "conformance" / "broker" / "pom.xml"
_FETCH_S = 400.0
_START_S = 120.0
_STOP_S = 20.0
_BOOTED = "boot success"
_CREATE_TOPIC, _ROUTE = 17, 105  # RocketMQ's request codes
# RocketMQ reaches into the JDK's own memory and sockets; Java 17 asks for leave.
_OPENED = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)
_LOGGING = """<configuration>
  <appender name="out" class="{core}.ConsoleAppender">
    <encoder><pattern>%d %p %logger{{0}} - %m%n</pattern></encoder>
  </appender>
  <root level="{level}"><appender-ref ref="out"/></root>
</configuration>
"""
_LOGGING_CORE = "org.apache.rocketmq.logging.ch.qos.logback.core"


class MavenUnavailable(Exception):
    """Maven or its registry is not there; the text says which and what Maven said."""


def maven_command(pom: Path, *arguments: str) -> list[str]:
    """The command line; MavenUnavailable when there is no Maven or no Java for it."""
    maven = shutil.which("mvn")
    if maven is None:
        raise MavenUnavailable("there is no `mvn` on the PATH (Debian: apt-get install maven)")
    if shutil.which("javac") is None:
        raise MavenUnavailable("there is no `javac` on the PATH (Debian: openjdk-17-jdk-headless)")
    return [maven, "-q", "-B", "-f", str(pom), *arguments]


def run_maven(arguments: Sequence[str], pom: Path, deadline_s: float = _FETCH_S) -> None:
    """Run Maven: without the network first, since that is quick when it has all it needs."""
    said = ""
    for network in (("--offline",), ()):
        try:
            done = subprocess.run(
                maven_command(pom, *network, *arguments),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=deadline_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            said = f"not done after {deadline_s:g} s"
            continue
        if done.returncode == 0:
            return
        said = done.stdout + done.stderr
    raise MavenUnavailable(f"mvn {' '.join(arguments)}: {said[-3000:]}")


def class_path(pom: Path = _POM) -> str:
    """Class path of a pom's dependencies, fetched when they are missing."""
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:16]
    known = cache_root() / "class-paths" / f"{digest}.txt"
    if known.exists():
        found = known.read_text().strip()
        if all(Path(jar).exists() for jar in found.split(":")):
            return found
    known.parent.mkdir(parents=True, exist_ok=True)
    made = known.with_suffix(".new")
    run_maven(["dependency:build-classpath", f"-Dmdep.outputFile={made}"], pom)
    made.replace(known)
    return known.read_text().strip()


class RocketMQ:
    """One name server and one broker; use it as a context manager or call start and stop.

    folder: where data and logs live; None means a temporary one, removed by `stop`.
    transaction_timeout_ms, check_interval_ms, check_max: the broker's transactionTimeOut,
        transactionCheckInterval and transactionCheckMax; the defaults are RocketMQ's own.
    properties: more broker properties, or other values for those set here.
    heap_mib: heap of the broker; its direct memory may be as much again.
    log_level: INFO writes a line for many a request; too slow under load.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        transaction_timeout_ms: int = 6_000,
        check_interval_ms: int = 30_000,
        check_max: int = 15,
        properties: Mapping[str, str] | None = None,
        heap_mib: int = 1_024,
        log_level: str = "WARN",
    ) -> None:
        self._given_folder = folder
        self._transactions = {
            "transactionTimeOut": str(transaction_timeout_ms),
            "transactionCheckInterval": str(check_interval_ms),
            "transactionCheckMax": str(check_max),
        }
        self._properties = dict(properties or {})
        self._heap_mib = heap_mib
        self._log_level = log_level
        self._ports = HeldPorts()
        self._name_server: ServerProcess | None = None
        self._broker: ServerProcess | None = None
        self._start_count = 0

    @property
    def name_server(self) -> str:
        """What a client is given as its name server address."""
        return f"127.0.0.1:{self._name_port}"

    @property
    def pids(self) -> dict[str, int]:
        """The process ids, for those who measure: `name_server` and `broker`."""
        assert self._name_server is not None
        assert self._broker is not None
        return {"name_server": self._name_server.pid, "broker": self._broker.pid}

    def start(self) -> Self:
        """Return when both have told that they are up."""
        self._class_path = class_path()
        self.folder = self._given_folder or Path(tempfile.mkdtemp(prefix="rocketmq-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self._name_port = self._ports.take()
        self._broker_port = self._take_broker_port()
        self._ha_port = self._ports.take()
        try:
            self._name_server = self._run(
                "name-server",
                "org.apache.rocketmq.namesrv.NamesrvStartup",
                ["-c", str(self._write_name_server())],
                heap_mib=256,
            )
            self.start_broker()
        except BaseException:
            self.stop()
            raise
        return self

    def start_broker(self) -> None:
        """The broker alone, on the ports and the data it had."""
        self._broker = self._run(
            "broker",
            "org.apache.rocketmq.broker.BrokerStartup",
            ["-c", str(self._write_broker())],
            heap_mib=self._heap_mib,
        )

    def stop_broker(self, *, kill: bool = False) -> None:
        """End the broker in good order, or at once."""
        assert self._broker is not None
        if kill:
            self._broker.kill()
        else:
            self._broker.terminate(grace_s=_STOP_S)

    def create_topic(self, name: str, queue_count: int) -> None:
        """Returns when the name server knows the way to it."""
        fields = {
            "topic": name,
            "defaultTopic": "TBW102",
            "readQueueNums": str(queue_count),
            "writeQueueNums": str(queue_count),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
        code = _ask(self._broker_port, _CREATE_TOPIC, fields)
        if code != 0:
            raise EmbeddedError(f"RocketMQ did not create the topic {name}: code {code}")
        wait_until(
            lambda: _ask(self._name_port, _ROUTE, {"topic": name}) == 0,
            _START_S,
            what=f"the route to {name}",
        )

    def stop(self) -> None:
        """End both; removes the folder if it was a temporary one."""
        for process in (self._broker, self._name_server):
            if process is not None and process.is_running:
                process.terminate(grace_s=_STOP_S)
        self._ports.close()
        if self._given_folder is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _take_broker_port(self) -> int:
        """A port whose second lower neighbour is free as well: the broker listens there, too."""
        while True:
            port = self._ports.take()
            try:
                self._ports.hold(port - 2)
            except EmbeddedError:
                continue
            return port

    def _write_name_server(self) -> Path:
        return _write_properties(
            self.folder / "name-server.properties",
            {
                "bindAddress": "127.0.0.1",
                "listenPort": str(self._name_port),
                "kvConfigPath": str(self.folder / "kvConfig.json"),
            },
        )

    def _write_broker(self) -> Path:
        store = self.folder / "store"
        return _write_properties(
            self.folder / "broker.properties",
            {
                "brokerClusterName": "conformance",
                "brokerName": "broker-a",
                "brokerId": "0",
                "brokerIP1": "127.0.0.1",
                "brokerIP2": "127.0.0.1",
                "bindAddress": "127.0.0.1",
                "namesrvAddr": self.name_server,
                "listenPort": str(self._broker_port),
                "haListenPort": str(self._ha_port),
                "storePathRootDir": str(store),
                "storePathCommitLog": str(store / "commitlog"),
                "mappedFileSizeCommitLog": str(256 * 1024 * 1024),
                # A development machine's disk is fuller than the default bears.
                "diskMaxUsedSpaceRatio": "98",
                "autoCreateTopicEnable": "true",
                **self._transactions,
                **self._properties,
            },
        )

    def _run(self, name: str, main: str, arguments: list[str], *, heap_mib: int) -> ServerProcess:
        self._start_count += 1
        logging = self.folder / "logging.xml"
        logging.write_text(_LOGGING.format(core=_LOGGING_CORE, level=self._log_level))
        process = ServerProcess(
            f"RocketMQ's {name}",
            [
                str(find_java().executable),
                f"-Xms{heap_mib}m",
                f"-Xmx{heap_mib}m",
                f"-XX:MaxDirectMemorySize={max(heap_mib, 1_024)}m",
                *_OPENED,
                f"-Drocketmq.home.dir={self.folder}",
                f"-Duser.home={self.folder}",
                f"-Drmq.logback.configurationFile={logging}",
                "-cp",
                self._class_path,
                main,
                *arguments,
            ],
            # One log for each start, so that an earlier life's words are not taken for this one's.
            log=self.folder / f"{name}-{self._start_count}.log",
            sweep=self.folder if self._given_folder is None else None,
        )
        wait_until(
            lambda: not process.is_running or _BOOTED in process.log.read_text("utf-8", "replace"),
            _START_S,
            what=lambda: f"{process.name} up; it said:\n{process.log_tail()}",
        )
        if not process.is_running:
            raise EmbeddedError(f"{process.name} ended at once; it said:\n{process.log_tail()}")
        return process


def _write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


def _ask(port: int, code: int, fields: Mapping[str, str]) -> int:
    """One request of RocketMQ's own protocol on a connection of its own; the answer's code."""
    header = json.dumps({"code": code, "version": 479, "opaque": 1, "extFields": dict(fields)})
    frame = struct.pack(">ii", 4 + len(header), len(header)) + header.encode()
    with (
        socket.create_connection(("127.0.0.1", port), timeout=_STOP_S) as connection,
        connection.makefile("rb") as answers,
    ):
        connection.sendall(frame)
        size, header_size = struct.unpack(">ii", answers.read(8))
        answer = answers.read(size - 4)
    answered: int = json.loads(answer[: header_size & 0xFFFFFF])["code"]
    return answered
