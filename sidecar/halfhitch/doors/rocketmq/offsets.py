"""Half partition and half offset as the one number that RocketMQ clients echo back; our address.

A client keeps what the answer to its half message says and sends it along with the end: the queue
offset, and a position that it reads out of the offset message id. We put the half offset into the
one, and both half partition and half offset into the other.
"""

from dataclasses import dataclass
from typing import Final

from halfhitch.wire.handle import Handle
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.ids import MessageIds
from halfhitch.wire.remoting.messages import Host
from halfhitch.wire.remoting.requests import End

_PARTITION_SHIFT: Final = 48
_OFFSET_MASK: Final = (1 << _PARTITION_SHIFT) - 1


@dataclass(frozen=True, slots=True)
class Address:
    """Where clients reach this door, as they are told."""

    text: str  # host:port
    host: Host  # its IP address, or that of the connection when it is a name
    message_ids: MessageIds


def commit_log_offset(partition: int, half_offset: int) -> int:
    """Both in one number that fits 63 bits."""
    return partition << _PARTITION_SHIFT | half_offset


def handle_of(end: End, producer_group: str) -> Handle:
    """The message that an end speaks of. RemotingError when its numbers contradict each other."""
    position, half_offset = end.commit_log_offset, end.state_offset
    if position < 0 or position & _OFFSET_MASK != half_offset:
        raise RemotingError(
            codes.SYSTEM_ERROR,
            f"tranStateTableOffset {half_offset} and commitLogOffset {position} do not name one "
            "half message of this server: send them as the answer to the message gave them",
        )
    transaction_id = end.transaction_id or end.message_id
    if not transaction_id:
        raise RemotingError(
            codes.SYSTEM_ERROR,
            "neither transactionId nor msgId says which transaction is to end: send the "
            "transactionId from the answer to the message",
        )
    return Handle(position >> _PARTITION_SHIFT, producer_group, transaction_id, (half_offset,))
