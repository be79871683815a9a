"""The doors among the settings, and the rule that parts their ports.

Owns `doors_of`. A door that is missing there is asked for no encryption, for nothing that TLS
needs, and for no port of its own: a new one belongs there first.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from halfhitch.config.settings import AdminSettings, HttpSettings, RocketmqSettings, Settings

DoorSettings = HttpSettings | AdminSettings | RocketmqSettings

Address = IPv4Address | IPv6Address | str  # a name: where it leads is not known yet

_V4_ANY, _V6_ANY = ip_address("0.0.0.0"), ip_address("::")  # noqa: S104 - compared, not bound
_OF_NAME: Final[dict[str, tuple[Address, ...]]] = {
    "localhost": (ip_address("127.0.0.1"),),  # and ::1 on some machines
    "": (_V4_ANY, _V6_ANY),
}


def doors_of(settings: Settings) -> tuple[tuple[str, DoorSettings], ...]:
    """Each with the name of its settings, also when it is off."""
    return (
        ("http", settings.http),
        ("admin", settings.admin),
        ("rocketmq", settings.rocketmq),
    )


def doors_do_not_share_a_port(settings: Settings) -> str | None:
    """The second one could not listen, and its message would name itself alone."""
    bound: list[tuple[str, DoorSettings]] = []
    for door, chosen in doors_of(settings):
        if not chosen.port or (isinstance(chosen, RocketmqSettings) and not chosen.enabled):
            continue
        for other, first in bound:
            if first.port == chosen.port and _meet(first.host, chosen.host):
                hosts = dict.fromkeys((first.host, chosen.host))
                return (
                    f"{other}.port and {door}.port are both {chosen.port} on {' and '.join(hosts)}:"
                    f" set {door}.port to {_free_port(settings, chosen)}."
                )
        bound.append((door, chosen))
    return None


def _meet(host: str, other: str) -> bool:
    """Whether both surely listen at one address."""
    return any(_is_one(a, b) for a in _addresses(host) for b in _addresses(other))


def _is_one(address: Address, other: Address) -> bool:
    if isinstance(address, str) or isinstance(other, str) or address.version != other.version:
        return address == other
    return address == other or address.is_unspecified or other.is_unspecified


def _addresses(host: str) -> tuple[Address, ...]:
    name = host.strip("[]").lower()
    try:
        return _OF_NAME.get(name) or (ip_address(name),)
    except ValueError:
        return (name,)


def _free_port(settings: Settings, chosen: DoorSettings) -> int:
    """Its default, or that of another door which has moved."""
    taken = {door.port for _, door in doors_of(settings)}
    defaults = (type(chosen)().port, *(type(door)().port for _, door in doors_of(settings)))
    return next(port for port in defaults if port not in taken)
