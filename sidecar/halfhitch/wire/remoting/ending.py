"""Request 37: how a transaction ends, said by its producer on its own or when it was asked.

Nothing is judged here but the form: whether the offsets agree, or what 0 means, is the door's.
"""

from typing import Final

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.fields import int32, int64, invalid, optional_text, text, yes
from halfhitch.wire.remoting.requests import End, Frame

#: What `commit_or_rollback` may be.
UNKNOWN: Final = codes.TRANSACTION_NOT
COMMIT: Final = codes.TRANSACTION_COMMIT
ROLLBACK: Final = codes.TRANSACTION_ROLLBACK


def read_end(frame: Frame) -> End:
    """A request with code 37. RemotingError when a field is missing or malformed."""
    fields = frame.fields
    decision = int32(fields, "commitOrRollback")
    if decision not in (UNKNOWN, COMMIT, ROLLBACK):
        raise invalid(f"commitOrRollback is {decision}: 8 commits, 12 rolls back, 0 does not know")
    return End(
        producer_group=text(fields, "producerGroup"),
        commit_or_rollback=decision,
        from_check=yes(fields, "fromTransactionCheck"),
        state_offset=int64(fields, "tranStateTableOffset"),
        commit_log_offset=int64(fields, "commitLogOffset"),
        message_id=fields.get("msgId", ""),
        transaction_id=optional_text(fields, "transactionId"),
        topic=optional_text(fields, "topic"),
        broker_name=optional_text(fields, "bname"),
        namespace=optional_text(fields, "ns") if yes(fields, "nsd") else None,
    )
