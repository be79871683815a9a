"""The network between the first sidecar and its servers, which can be made a bad one.

Owns `KafkaLinks` (the Kafka-aware proxies before all brokers, as one) and `TcpLink` (a relay before
one plain TCP server, for Redis).
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from typing import TYPE_CHECKING

from chaos.kit.proxy import Direction, KafkaProxy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from halfhitch.embedded import ProxyRoute

_RESET = struct.pack("ii", 1, 0)


class KafkaLinks:
    """One proxy for each broker; what is ordered here happens at all of them."""

    def __init__(self, routes: Sequence[ProxyRoute]) -> None:
        self.proxies = {
            route.broker_id: KafkaProxy(route.listen_port, route.target_port).start()
            for route in routes
        }

    def stall(self, direction: Direction | None = None) -> None:
        """Nothing passes in this direction (None: in both); connections stay open."""
        for proxy in self.proxies.values():
            proxy.stall(direction)

    def cut(self) -> int:
        """Reset all connections; gives how many there were."""
        return sum(proxy.cut() for proxy in self.proxies.values())

    def refuse(self) -> None:
        """New connections are reset at once."""
        for proxy in self.proxies.values():
            proxy.refuse()

    def delay(
        self,
        delay_ms: float,
        api_key: int | None = None,
        direction: Direction = Direction.REQUEST,
    ) -> None:
        """Every frame comes later; or every frame of that kind, in this direction."""
        for proxy in self.proxies.values():
            proxy.delay(delay_ms, None if api_key is None else direction, api_key)

    def cut_after_bytes(self, byte_count: int) -> None:
        """All is cut in the middle of a frame, at each broker's link on its own."""
        for proxy in self.proxies.values():
            proxy.cut_after_bytes(byte_count)

    def passed(self, api_key: int | None = None) -> int:
        """Requests (of that kind) that have gone through: proof that somebody used these links."""
        counted = [proxy.counts().requests_passed for proxy in self.proxies.values()]
        return sum(c.total() if api_key is None else c[int(api_key)] for c in counted)

    def heal(self) -> None:
        """A good network again."""
        for proxy in self.proxies.values():
            proxy.heal()

    def close(self) -> None:
        """End."""
        for proxy in self.proxies.values():
            proxy.stop()


class TcpLink:
    """A relay before one server on this machine. Threads: two for each connection."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._flowing = threading.Event()
        self._flowing.set()
        self._delay_s = 0.0
        self._is_refusing = False
        self._garbles = False
        self.passed_bytes = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self) -> None:
        """Nothing passes; connections stay open."""
        self._flowing.clear()

    def delay(self, delay_ms: float) -> None:
        """Every piece comes later."""
        self._delay_s = delay_ms / 1000

    def refuse(self) -> None:
        """New connections are reset."""
        self._is_refusing = True

    def cut(self) -> int:
        """Reset all connections; gives how many ends there were."""
        with self._lock:
            ends = list(self._sockets)
        for end in ends:
            _reset(end)
        return len(ends)

    def garble(self) -> None:
        """The next pieces are cut in half, and the connection with them."""
        self._garbles = True

    def heal(self) -> None:
        """A good network again."""
        self._is_refusing = self._garbles = False
        self._delay_s = 0.0
        self._flowing.set()

    def close(self) -> None:
        """End."""
        self._listener.close()
        self.heal()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._is_refusing:
                _reset(client)
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._to_port), 5)
            except OSError:
                _reset(client)
                continue
            server.settimeout(None)
            with self._lock:
                self._sockets |= {client, server}
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while piece := source.recv(65_536):
                if self._delay_s:
                    time.sleep(self._delay_s)
                self._flowing.wait()
                if self._garbles:
                    target.sendall(piece[: len(piece) // 2])
                    break
                target.sendall(piece)
                self.passed_bytes += len(piece)
        except OSError:
            pass
        with self._lock:
            self._sockets -= {source, target}
        _reset(source)
        _reset(target)


def _reset(end: socket.socket) -> None:
    try:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        # The thread that waits in recv() would keep the connection open after a mere close().
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has gone already
    end.close()
