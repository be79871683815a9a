"""A wire to a database, which can be cut at the very word of a client's.

Unlike a killed server, it leaves the server as it was: what it was told before, it does.
"""

from __future__ import annotations

import contextlib
import re
import select
import socket
import threading
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class _Cut:
    word: re.Pattern[bytes]
    is_delivered: bool
    is_last: bool


class Wire:
    """Between clients and a server on loopback, on a port of its own."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._cut: _Cut | None = None
        self._is_broken = False
        self._lock = threading.Lock()
        self.cut_count = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_at(self, word: bytes, *, is_delivered: bool, is_last: bool = False) -> None:
        """Once: the connection on which a client says this word.

        If it is delivered, the server's answer is awaited and told to nobody. After the last cut
        no connection is made any more, until the wire is mended.
        """
        with self._lock:
            self._cut = _Cut(re.compile(rb"\b%s\b" % word), is_delivered, is_last)

    def lead_to(self, server_port: int) -> None:
        """From the next connection on."""
        with self._lock:
            self._server_port = server_port

    def mend(self) -> None:
        with self._lock:
            self._is_broken = False

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            with self._lock:
                if self._is_broken:
                    return
                address = ("127.0.0.1", self._server_port)
            with (
                contextlib.suppress(OSError),
                socket.create_connection(address) as server,
            ):
                self._forward(client, server)

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        while True:
            ready, _, _ = select.select([client, server], [], [])
            for side in ready:
                data = side.recv(65_536)
                if not data:
                    return
                if side is server:
                    client.sendall(data)
                    continue
                cut = self._taken(data)
                if cut is None:
                    server.sendall(data)
                    continue
                if cut.is_delivered:
                    server.sendall(data)
                    server.recv(65_536)
                return

    def _taken(self, data: bytes) -> _Cut | None:
        """The cut, if these are the words; it is done once."""
        with self._lock:
            cut = self._cut
            if cut is None or not cut.word.search(data):
                return None
            self._cut = None
            self._is_broken = cut.is_last
            self.cut_count += 1
            return cut
