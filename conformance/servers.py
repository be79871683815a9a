"""The two servers that the cases run against, and the address that cases give orders to.

Owns `Side` (what a server under test must be able to do), `RocketMqSide`, `HalfHitchSide`, and
`Control`, a small HTTP server on loopback: POST /topic?name=&queues=, /restart, /kill.

Both are started with the same check times, so that what is observed can be compared.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import parse_qs, urlsplit

from halfhitch.embedded.ports import HeldPorts
from harness.kafka import create_topics
from harness.native import way_of_process, wrong_ways
from harness.rocketmq import RocketMQ
from harness.sidecar import Sidecar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

IMMUNITY_MS = 3_000
INTERVAL_MS = 2_000
CHECK_MAX = 5
_READY_S = 60.0
# RocketMQ's own limit for a body, and room for its properties.
_LARGE_BYTES = 4_194_304 + 65_536


class Side(Protocol):
    """A server under test."""

    kind: str

    def properties(self) -> dict[str, str]:
        """Java system properties that tell a case where it is."""

    def create_topic(self, name: str, queue_count: int) -> None:
        """Return when producers and consumers may use it."""

    def restart(self, *, kill: bool) -> None:
        """End it (in good order, or at once) and return when it is up again."""


class RocketMqSide:
    """Name server and broker; orders of a restart are for the broker."""

    kind = "rocketmq"

    def __init__(self, folder: Path | None = None) -> None:
        self.server = RocketMQ(
            folder,
            transaction_timeout_ms=IMMUNITY_MS,
            check_interval_ms=INTERVAL_MS,
            check_max=CHECK_MAX,
            # Its default is a tenth of the default interval. With checks as frequent as here and
            # this left at 3 s, most decided messages would be checked again, and be doubled.
            properties={"transactionOpBatchInterval": str(INTERVAL_MS // 10)},
        )

    def properties(self) -> dict[str, str]:
        return {"conformance.nameServer": self.server.name_server}

    def create_topic(self, name: str, queue_count: int) -> None:
        self.server.create_topic(name, queue_count)

    def restart(self, *, kill: bool) -> None:
        self.server.stop_broker(kill=kill)
        self.server.start_broker()

    def __enter__(self) -> Self:
        self.server.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.server.stop()


class HalfHitchSide:
    """One sidecar with its RocketMQ door; Kafka and Redis are given and stay up.

    large: take messages of RocketMQ's size; the given Kafka must take them as well.
    """

    kind = "halfhitch"

    def __init__(
        self,
        folder: Path,
        kafka: str,
        redis: str,
        *,
        prefix: str = "",
        large: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._kafka = kafka
        self._ports = HeldPorts()
        self._port = self._ports.take()
        settings = {
            "HALFHITCH_ROCKETMQ_ENABLED": "true",
            "HALFHITCH_ROCKETMQ_PORT": str(self._port),
            "HALFHITCH_REDIS_URL": redis,
            "HALFHITCH_TOPICS_CREATE": "true",
            "HALFHITCH_TOPICS_PARTITIONS": "2",
            "HALFHITCH_TOPICS_PREFIX": prefix,
            "HALFHITCH_CHECKS_IMMUNITY_S": str(IMMUNITY_MS / 1000),
            "HALFHITCH_CHECKS_INTERVAL_S": str(INTERVAL_MS / 1000),
            "HALFHITCH_CHECKS_JITTER": "0",
            "HALFHITCH_CHECKS_COUNT_MAX": str(CHECK_MAX),
        }
        if large:
            settings["HALFHITCH_MESSAGES_BYTES_MAX"] = str(_LARGE_BYTES)
            settings["HALFHITCH_OWNER_BATCH_BYTES_MAX"] = str(2 * _LARGE_BYTES)
        self.sidecar = Sidecar(kafka, folder, **settings, **(environment or {}))

    def properties(self) -> dict[str, str]:
        return {
            "conformance.nameServer": f"127.0.0.1:{self._port}",
            "conformance.kafka": self._kafka,
        }

    def create_topic(self, name: str, queue_count: int) -> None:
        create_topics(self._kafka, {name: queue_count})

    def restart(self, *, kill: bool) -> None:
        if kill:
            self.sidecar.kill()
        else:
            self.sidecar.terminate()
        self.sidecar.start()
        self._wait_ready()

    def _wait_ready(self) -> None:
        process = self.sidecar.wait_ready(_READY_S).process
        assert process is not None
        if wrong := wrong_ways([way_of_process(process.pid)]):
            raise RuntimeError(wrong)

    def __enter__(self) -> Self:
        self.sidecar.start()
        try:
            self._wait_ready()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.sidecar.exit_code is None:
            self.sidecar.terminate()
        self._ports.close()


class Control:
    """Takes the orders of the cases for one side; use it as a context manager."""

    def __init__(self, side: Side) -> None:
        one_restart = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def end_headers(self) -> None:
                # Or Java's client keeps a connection that is closed by the time of the next order.
                self.send_header("Connection", "close")
                super().end_headers()

            def do_POST(self) -> None:
                where = urlsplit(self.path)
                asked = {name: found[0] for name, found in parse_qs(where.query).items()}
                try:
                    if where.path == "/topic":
                        side.create_topic(asked["name"], int(asked["queues"]))
                    elif where.path in ("/restart", "/kill"):
                        with one_restart:
                            side.restart(kill=where.path == "/kill")
                    else:
                        raise ValueError(f"no such order: {where.path}")
                except Exception as problem:  # noqa: BLE001 - the case is told, and fails
                    self.send_response(500)
                    text = repr(problem).encode()
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
                else:
                    self.send_response(204)
                    self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                """Quiet: the cases tell what they ordered."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
