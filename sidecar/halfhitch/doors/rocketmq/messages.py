"""Messages between RocketMQ's form and the service's.

Kafka gets the KEYS property as the record's key (and header), the body, decompressed, as its value,
and every other property as a header. Properties that the half record or the forwarded record
carries as system headers (`UNIQ_KEY`, `PGROUP`, ...) are left out here and put back for a check.
"""

from collections.abc import Mapping
from typing import Final

from halfhitch.errors import HalfHitchError
from halfhitch.service.api import OutgoingMessage, UserHeaders
from halfhitch.wire import headers as names
from halfhitch.wire.check import CheckMessage
from halfhitch.wire.half import IMMUNITY_S_MAX
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.compression import Inflaters, inflate
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.properties import (
    DELAYING,
    KEYS,
    NAME_SEPARATOR,
    PROPERTY_SEPARATOR,
)

#: `Message.flag`, which applications may set; a header only when it is not 0.
FLAG_HEADER: Final = "ROCKETMQ_FLAG"
_TRANSACTION_ID: Final = "__transactionId__"
#: Carried otherwise, or of no meaning after the client has sent it.
_NOT_HEADERS: Final = frozenset({*names.SYSTEM, _TRANSACTION_ID, FLAG_HEADER})
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1


def is_transactional(sys_flag: int, properties: Mapping[str, str]) -> bool:
    """Whether it is to stay invisible. RocketMQ looks at the property alone; whoever sets the bit
    means the same. RemotingError for bits that no client may send."""
    kind = sys_flag & codes.TRANSACTION_MASK
    if kind not in (codes.TRANSACTION_NOT, codes.TRANSACTION_PREPARED):
        raise RemotingError(
            codes.MESSAGE_ILLEGAL,
            "sysFlag says that the message is committed or rolled back: send it without, and end "
            "its transaction",
        )
    mark = properties.get(names.TRAN_MSG)
    return kind == codes.TRANSACTION_PREPARED or (mark is not None and mark.lower() == "true")


def refuse_delay(properties: Mapping[str, str], *, transactional: bool) -> None:
    """Kafka delivers at once; to do that to a delayed message would be wrong. RemotingError."""
    for name in DELAYING:
        if name in properties and properties[name] != "0":
            what = "a transactional message" if transactional else "a message for Kafka"
            raise RemotingError(
                codes.MESSAGE_ILLEGAL,
                f"{what} cannot be delayed ({name}): Kafka has no delayed delivery; send it "
                "without, or schedule it in the application",
            )


def outgoing(
    topic: str,
    queue_id: int,
    flag: int,
    sys_flag: int,
    properties: Mapping[str, str],
    body: bytes,
    *,
    body_bytes_max: int,
    inflaters: Inflaters,
) -> OutgoingMessage:
    """The message for the service. RemotingError when its body cannot be had."""
    if sys_flag & codes.COMPRESSED or len(body) > body_bytes_max:
        body = inflate(body, sys_flag, body_bytes_max, inflaters)
    headers: UserHeaders = [
        (name, value.encode()) for name, value in properties.items() if name not in _NOT_HEADERS
    ]
    if flag:
        headers.append((FLAG_HEADER, b"%d" % flag))
    keys = properties.get(KEYS)
    return OutgoingMessage(
        topic,
        None if keys is None else keys.encode(),
        body,
        headers,
        queue_id if queue_id >= 0 else None,
    )


def immunity_s(properties: Mapping[str, str]) -> int | None:
    """CHECK_IMMUNITY_TIME_IN_SECONDS; what is no sensible number counts as none, as in RocketMQ."""
    text = properties.get(names.CHECK_IMMUNITY_TIME_IN_SECONDS)
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= len("604800")):
        return None
    return min(int(text), IMMUNITY_S_MAX)


def properties_of(message: CheckMessage) -> tuple[dict[str, str], int]:
    """The properties that its producer gave, and its flag.

    A message that came through another door may have headers that no property can hold: those are
    left out, and its key becomes KEYS.
    """
    properties: dict[str, str] = {}
    flag = 0
    for name, value in message.headers:
        if name == FLAG_HEADER:
            flag = _flag(value)
        elif value and name and _fits(name):
            text = value.decode(errors="replace")
            if _fits(text):
                properties[name] = text
    if message.key and KEYS not in properties:
        text = message.key.decode(errors="replace")
        if _fits(text):
            properties[KEYS] = text
    return properties, flag


def _fits(text: str) -> bool:
    return NAME_SEPARATOR not in text and PROPERTY_SEPARATOR not in text


def _flag(value: bytes | None) -> int:
    try:
        number = int(value or b"0")
    except ValueError:
        return 0
    return number if _INT32_MIN <= number <= _INT32_MAX else 0


def several_of(stored_count: int, error: HalfHitchError, count: int) -> str:
    """The remark about a batch of which not all was stored."""
    return f"{stored_count} of {count} messages of the batch are stored. {error.message}"
