"""TLS and plain connections on one port: who opens with a TLS handshake gets TLS.

RocketMQ's servers tell the two apart by the first byte, and so does this: a new connection is
looked at (not read) before a transport is made for it. Used only when a certificate is configured;
otherwise the loop's own listener is simpler.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from halfhitch.errors import ConfigurationError
from halfhitch.wire.remoting.frame import starts_tls

logger = logging.getLogger(__name__)

_BACKLOG: Final = 1024
_ACCEPTS_MAX: Final = 64
#: After an error that may last, such as too many open files.
_PAUSE_S: Final = 0.5


def server_context(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """TLS 1.2 and later. Raises ConfigurationError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"rocketmq.tls_cert and rocketmq.tls_key cannot be used ({error}): give a certificate "
            "chain and its unencrypted key, both PEM."
        ) from error
    return context


class PeekingListener:
    """Accepts, waits for the first byte, then makes the transport that fits."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        factory: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext,
        *,
        wait_s: float,
        waiting_count_max: int,
    ) -> None:
        self._loop = loop
        self._factory = factory
        self._context = context
        self._wait_s = wait_s
        self._waiting_count_max = waiting_count_max
        self._sockets: list[socket.socket] = []
        self._waiting: dict[socket.socket, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def listen(self, host: str, port: int) -> int:
        """The port. Raises OSError."""
        for family, _, _, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            listener = socket.socket(family, socket.SOCK_STREAM)
            self._sockets.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((address[0], port, *address[2:]))
            listener.listen(_BACKLOG)
            listener.setblocking(False)
            port = listener.getsockname()[1]
            self._loop.add_reader(listener, self._accept, listener)
        return port

    def close(self) -> None:
        """Take no more; connections that have not said anything yet are closed."""
        for listener in self._sockets:
            self._loop.remove_reader(listener)
            listener.close()
        self._sockets.clear()
        for waiting in list(self._waiting):
            self._drop(waiting)
        for task in self._tasks:
            task.cancel()

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTS_MAX):
            try:
                accepted, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.warning(
                    "the RocketMQ door cannot accept connections for a moment: %s",
                    error,
                    extra={"action": "rocketmq_accept_failed"},
                )
                self._loop.remove_reader(listener)
                self._loop.call_later(_PAUSE_S, self._resume, listener)
                return
            if len(self._waiting) >= self._waiting_count_max:
                accepted.close()
                continue
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._waiting[accepted] = self._loop.call_later(self._wait_s, self._drop, accepted)
            self._loop.add_reader(accepted, self._speaks, accepted)

    def _resume(self, listener: socket.socket) -> None:
        if listener in self._sockets:
            self._loop.add_reader(listener, self._accept, listener)

    def _speaks(self, accepted: socket.socket) -> None:
        """The first byte is here, or the end of what never began."""
        try:
            first = accepted.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        if not first:
            self._drop(accepted)
            return
        self._waiting.pop(accepted).cancel()
        self._loop.remove_reader(accepted)
        task = self._loop.create_task(self._hand_over(accepted, is_tls=starts_tls(first)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _hand_over(self, accepted: socket.socket, *, is_tls: bool) -> None:
        try:
            if is_tls:
                await self._loop.connect_accepted_socket(
                    self._factory,
                    accepted,
                    ssl=self._context,
                    ssl_handshake_timeout=self._wait_s,
                )
            else:
                await self._loop.connect_accepted_socket(self._factory, accepted)
        except (OSError, ssl.SSLError, TimeoutError) as error:
            logger.warning(
                "a RocketMQ client's TLS handshake failed: %s",
                error,
                extra={"action": "rocketmq_handshake_failed"},
            )
            accepted.close()

    def _drop(self, accepted: socket.socket) -> None:
        self._waiting.pop(accepted).cancel()
        self._loop.remove_reader(accepted)
        accepted.close()
