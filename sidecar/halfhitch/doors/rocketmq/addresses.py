"""Who is at either end of a connection, as clients are told and as people read it."""

import asyncio
import ipaddress
from typing import Final

from halfhitch.doors.rocketmq.offsets import Address
from halfhitch.wire.remoting.ids import MessageIds
from halfhitch.wire.remoting.messages import Host

#: What is told of a peer that has no IP address.
NOWHERE: Final = ("0.0.0.0", 0)  # noqa: S104


def address_of(sockname: object, advertised: tuple[str, int | None] | None) -> Address:
    """Where a client reaches us: what it dialled, unless something is `advertised`."""
    local = ip_host(sockname)
    host, port = local
    if advertised is not None:
        host, port = advertised[0], advertised[1] or port
    try:
        ip = str(ipaddress.ip_address(host))
    except ValueError:
        ip = local[0]
    text = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Address(text, (ip, port), MessageIds(ip, port))


def ip_host(name: object) -> Host:
    """Address and port of one side; scope and flow of IPv6 left out."""
    if not isinstance(name, tuple) or len(name) < 2:
        return NOWHERE
    address = ipaddress.ip_address(str(name[0]).partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), int(name[1])


def is_encrypted(transport: asyncio.BaseTransport | None) -> bool:
    """Whether it speaks TLS."""
    return transport is not None and transport.get_extra_info("ssl_object") is not None


def shown(host: Host) -> str:
    """For the log."""
    return f"[{host[0]}]:{host[1]}" if ":" in host[0] else f"{host[0]}:{host[1]}"
