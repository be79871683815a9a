"""The wire between a program and its database server, within the program's own process.

A relay that looks for COMMIT on its way to the server. At BEFORE it has not gone on; at IN it has,
and the server's answer has come back as far as here: the local transaction has ended, and its
program does not know it yet. Then `strike` is called, in the relay's thread; what it gives says
whether the connection is to be cut.
"""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

BEFORE, IN = "wire before COMMIT", "wire in COMMIT"


class Relay:
    """Listens on `port`. Threads: two for each connection, all daemons."""

    def __init__(
        self,
        to_port: int,
        place: str,
        *,
        is_armed: Callable[[], bool],
        strike: Callable[[], bool],
    ) -> None:
        self._to_port = to_port
        self._place = place
        self._is_armed = is_armed
        self._strike = strike
        self._has_struck = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            server = socket.create_connection(("127.0.0.1", self._to_port), 20)
            server.settimeout(None)
            wanted = threading.Event()
            threading.Thread(
                target=self._to_server, args=(client, server, wanted), daemon=True
            ).start()
            threading.Thread(
                target=self._to_client, args=(server, client, wanted), daemon=True
            ).start()

    def _to_server(
        self,
        client: socket.socket,
        server: socket.socket,
        wanted: threading.Event,
    ) -> None:
        try:
            while piece := client.recv(65_536):
                is_it = _is_commit(piece) and not self._has_struck and self._is_armed()
                self._has_struck |= is_it
                if is_it and self._place == BEFORE and self._strike():
                    break
                if is_it and self._place == IN:
                    wanted.set()
                server.sendall(piece)
        except OSError:
            pass  # one of the two has gone
        _close(client, server)

    def _to_client(
        self,
        server: socket.socket,
        client: socket.socket,
        wanted: threading.Event,
    ) -> None:
        try:
            while piece := server.recv(65_536):
                if wanted.is_set():
                    wanted.clear()
                    if self._strike():
                        break
                client.sendall(piece)
        except OSError:
            pass
        _close(client, server)


def _is_commit(piece: bytes) -> bool:
    """As both protocols write it: the statement alone, PostgreSQL's with a zero behind it."""
    return piece.rstrip(b"\0").endswith(b"COMMIT")


def _close(*ends: socket.socket) -> None:
    for end in ends:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has gone already
