"""Where a half lies, as the two numbers that RocketMQ clients echo back; our address.

A client keeps what the answer to its half message says and sends it along with the end: the queue
offset, and a position that it reads out of the offset message id. What a check names, it sends back
with its answer. We put half partition and half offset into the position, and a seal into the queue
offset, which nobody else can make (wire/seal.py): so an end speaks of a half that was prepared over
this door, or that this door has asked about. To clients the queue offset of a half says nothing.
"""

from dataclasses import dataclass
from typing import Final

from halfhitch.wire.handle import Handle
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.ids import MessageIds
from halfhitch.wire.remoting.messages import Host
from halfhitch.wire.remoting.requests import End
from halfhitch.wire.seal import Seals

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


class ForeignEnd(RemotingError):
    """The numbers of an end are not those that this installation gave for this transaction."""

    code = "foreign_end"


def handle_of(end: End, producer_group: str) -> Handle:
    """The message that an end speaks of, if it says the truth. RemotingError for what none can."""
    position = end.commit_log_offset
    if position < 0:
        raise RemotingError(
            codes.SYSTEM_ERROR,
            f"commitLogOffset {position} names no half message of this server: send it as the "
            "answer to the message gave it, in its msgId",
        )
    transaction_id = end.transaction_id or end.message_id
    if not transaction_id:
        raise RemotingError(
            codes.SYSTEM_ERROR,
            "neither transactionId nor msgId says which transaction is to end: send the "
            "transactionId from the answer to the message",
        )
    partition, half_offset = position >> _PARTITION_SHIFT, position & _OFFSET_MASK
    return Handle(partition, producer_group, transaction_id, (half_offset,))


def require_seal(seals: Seals, known: Handle, seal: int) -> None:
    """Raises ForeignEnd."""
    partition, half_offset = known.partition, known.half_offsets[0]
    if not seals.fits(seal, partition, half_offset, known.producer_group, known.transaction_id):
        raise ForeignEnd(
            codes.SYSTEM_ERROR,
            f"tranStateTableOffset {seal} is not what the message of transaction "
            f"{known.transaction_id[:80]!r} was answered with: send it, commitLogOffset, "
            "producerGroup and transactionId as the answer to the message, or the check, gave "
            "them. A check settles what stays undecided",
        )
