"""RocketMQ doors with TLS, and connections that end."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from halfhitch.doors.tls import ServerTls, TlsFiles
from harness.remoting_client import DEADLINE_S

if TYPE_CHECKING:
    from harness.remoting_client import RemotingClient

GROUP = "g"


async def is_closed(client: RemotingClient) -> None:
    await asyncio.wait_for(client.closed.wait(), DEADLINE_S)


def server_tls(pair: tuple[Path, Path]) -> ServerTls:
    files = TlsFiles(door="rocketmq", certificate=pair[0], key=pair[1])
    return ServerTls(files, lambda: 0)


def trusting(pair: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(pair[0]))
    context.check_hostname = False
    return context
