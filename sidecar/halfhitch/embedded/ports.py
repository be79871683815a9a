"""Free loopback ports that stay free until a server takes them.

Owns `HeldPorts`. A port that was merely seen free can be taken by anybody before the server binds
it, and again while a killed server is down. On Linux each port is therefore held by a bound socket
that never listens: with SO_REUSEADDR set on both, a server may bind and listen beside it, while
everybody else finds the port taken. Elsewhere the ports are only seen free.
"""

from __future__ import annotations

import socket
import sys

from halfhitch.embedded.errors import EmbeddedError


class HeldPorts:
    """Loopback ports held for one cluster; close when its servers are gone for good."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def take(self) -> int:
        """A port nobody uses, kept for the caller."""
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        # After the bind, so that the kernel did not pick a port that somebody else holds this way.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._keep(holder)
        return port

    def hold(self, port: int) -> int:
        """Keep a port that was asked for; EmbeddedError if somebody listens there."""
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        # Before the bind: connections of an earlier run may linger on this port.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            holder.bind(("127.0.0.1", port))
        except OSError as problem:
            holder.close()
            raise EmbeddedError(
                f"port {port} on 127.0.0.1 cannot be had ({problem.strerror}). Another process"
                " uses it (`ss -ltnp` names it): end that one or choose another port."
            ) from problem
        self._keep(holder)
        return port

    def _keep(self, holder: socket.socket) -> None:
        if sys.platform == "linux":
            self._sockets.append(holder)
        else:
            # There a second bind would be refused to the server as well.
            holder.close()

    def close(self) -> None:
        """Give every port back."""
        for holder in self._sockets:
            holder.close()
        self._sockets.clear()
