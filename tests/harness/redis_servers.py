"""Redis servers in other set-ups than one plain one: Sentinel, Cluster, TLS, a unix socket.

Owns the processes and their files. All are real; only TLS is done by a relay of ours in front of a
plain server, because the server that the tests bring along has been built without it.
"""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Self

from redis import Redis

from halfhitch.embedded.ports import HeldPorts
from halfhitch.embedded.processes import ServerProcess
from halfhitch.embedded.redis import redis_binary

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

_START_S = 15.0


class RedisServers:
    """Any number of servers, each with a folder, a port and a configuration of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = HeldPorts()
        self._processes: dict[int, ServerProcess] = {}

    def start(self, *lines: str, arguments: tuple[str, ...] = (), socket_only: bool = False) -> int:
        """Start one and wait for its PONG; gives its port."""
        port = self._port()
        folder = self._folder / str(port)
        folder.mkdir()
        configuration = folder / "redis.conf"
        general = ("bind 127.0.0.1", f"port {0 if socket_only else port}", f"dir {folder}")
        configuration.write_text("\n".join([*general, "protected-mode no", *lines, ""]))
        self._processes[port] = ServerProcess(
            f"redis {port}",
            [str(redis_binary()), str(configuration), *arguments],
            log=folder / "redis.log",
            grace_s=5.0,
        )
        return port

    def _port(self) -> int:
        """In a cluster the servers talk to one another on a port that is higher by 10,000."""
        while True:
            port = self._ports.take()
            if port + 10_000 <= 65_535:
                self._ports.hold(port + 10_000)
                return port

    def kill(self, port: int) -> None:
        """SIGKILL."""
        self._processes.pop(port).kill()

    def client(self, port: int, **options: str) -> Redis:
        """A plain client of one server."""
        return Redis(port=port, protocol=2, **options)  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes.values():
            process.kill()
        self._ports.close()


def wait_until(condition: Callable[[], object], within_s: float = _START_S) -> None:
    """Errors of the client count as: not yet."""
    deadline_s = time.monotonic() + within_s
    while True:
        try:
            if condition():
                return
            problem: Exception | None = None
        except Exception as error:  # noqa: BLE001 - a server that is only starting gives many
            problem = error
        if time.monotonic() > deadline_s:
            raise AssertionError(f"not within {within_s} s") from problem
        time.sleep(0.02)


def certificate(folder: Path, name: str = "localhost") -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", f"/CN={name}"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


class TlsRelay:
    """Takes TLS connections and passes them on to a plain server."""

    def __init__(self, to_port: int, cert: Path, key: Path) -> None:
        self._to_port = to_port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(cert, key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End every connection."""
        self._listener.close()
        for connection in self._sockets:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(plain,), daemon=True).start()

    def _relay(self, plain: socket.socket) -> None:
        self._sockets.append(plain)
        try:
            outer = self._context.wrap_socket(plain, server_side=True)
        except OSError:
            plain.close()
            return
        inner = socket.create_connection(("127.0.0.1", self._to_port))
        self._sockets += (outer, inner)
        # One thread for each direction: a TLS socket may be read and written at the same time.
        back = threading.Thread(target=_copy, args=(inner, outer), daemon=True)
        back.start()
        _copy(outer, inner)


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while chunk := source.recv(65_536):
            target.sendall(chunk)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        end.close()
