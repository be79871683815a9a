"""Request 39, the only one that the server makes: what became of this half message?

One-way: the answer is an ordinary request to end the transaction, with `from_check`.
"""

import msgspec

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.fields import int64
from halfhitch.wire.remoting.frame import encode, request
from halfhitch.wire.remoting.requests import Form, Frame


class Check(msgspec.Struct):
    """What a client is told of the half message it is asked about."""

    state_offset: int
    commit_log_offset: int
    message_id: str  # the client's: UNIQ_KEY
    transaction_id: str
    offset_message_id: str
    topic: str
    broker_name: str


def check_request(opaque: int, check: Check, encoded_message: bytes) -> bytes:
    """The bytes that ask. JSON, as RocketMQ's own servers do with every client."""
    return encode(
        request(
            codes.CHECK_TRANSACTION_STATE,
            opaque,
            {
                "tranStateTableOffset": str(check.state_offset),
                "commitLogOffset": str(check.commit_log_offset),
                "msgId": check.message_id,
                "transactionId": check.transaction_id,
                "offsetMsgId": check.offset_message_id,
                "topic": check.topic,
                "bname": check.broker_name,
            },
            encoded_message,
            flag=codes.ONE_WAY_FLAG,
            form=Form.JSON,
        )
    )


def read_check(frame: Frame) -> Check:
    """The client's side of it, for test clients and tools."""
    fields = frame.fields
    return Check(
        int64(fields, "tranStateTableOffset"),
        int64(fields, "commitLogOffset"),
        fields.get("msgId", ""),
        fields.get("transactionId", ""),
        fields.get("offsetMsgId", ""),
        fields.get("topic", ""),
        fields.get("bname", ""),
    )
