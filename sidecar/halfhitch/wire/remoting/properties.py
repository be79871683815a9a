r"""The properties of a message: one string on the wire, `name\x01value\x02...`, a dictionary here.

Reading is as kind as RocketMQ's: pieces without a name or a value are left out, and the last
separator may be missing. Writing refuses what could not be read back.
"""

from typing import Final

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.faults import RemotingError

NAME_SEPARATOR: Final = "\x01"
PROPERTY_SEPARATOR: Final = "\x02"
#: Their length has 16 bits, one for the sign.
PROPERTIES_BYTES_MAX: Final = 32_767

KEYS: Final = "KEYS"
DELAY: Final = "DELAY"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
#: Any of them asks for a later delivery.
DELAYING: Final = (DELAY, TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS)


def read_properties(text: str) -> dict[str, str]:
    """The string of a request as a dictionary; of two with one name the last counts."""
    properties: dict[str, str] = {}
    for piece in text.split(PROPERTY_SEPARATOR):
        name, _, value = piece.partition(NAME_SEPARATOR)
        if name and value:
            properties[name] = value
    return properties


def write_properties(properties: dict[str, str]) -> str:
    """The string, with a separator at the end too, as clients of 5.x write it."""
    for name, value in properties.items():
        if not name or not value or NAME_SEPARATOR in name or PROPERTY_SEPARATOR in name + value:
            raise RemotingError(
                codes.MESSAGE_ILLEGAL,
                f"the property {name!r} is empty or has a separator (\\x01, \\x02) inside",
            )
    return "".join(
        [f"{name}{NAME_SEPARATOR}{value}{PROPERTY_SEPARATOR}" for name, value in properties.items()]
    )
