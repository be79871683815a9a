"""Requests that bring messages: 10 and 310 with one, 320 with several; and their answer.

`read_send` gives the same whether a header is JSON or binary, with long names or with letters. The
body stays as it came: `compression.inflate` undoes what the client did to it.
"""

from struct import Struct
from typing import Final

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.fields import int32, int64, invalid, optional_text, text, yes
from halfhitch.wire.remoting.frame import reply
from halfhitch.wire.remoting.properties import PROPERTIES_BYTES_MAX, read_properties
from halfhitch.wire.remoting.requests import BatchedMessage, Frame, Send

#: More messages than this in one batch are refused: each costs more than its bytes.
BATCH_COUNT_MAX: Final = 10_000

_LONG_NAMES: Final = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "m": "batch",
    "n": "bname",
}
_LETTERS: Final = {letter: letter for letter in _LONG_NAMES}
_BATCHED_HEAD: Final = Struct(">iiiii")


def read_send(frame: Frame) -> Send:
    """A request with code 10, 310 or 320. RemotingError when a field is missing or malformed."""
    fields = frame.fields
    names = _LONG_NAMES if frame.code == codes.SEND_MESSAGE else _LETTERS
    properties = fields.get(names["i"], "")
    if len(properties.encode()) > PROPERTIES_BYTES_MAX:
        raise RemotingError(
            codes.MESSAGE_ILLEGAL,
            f"the properties have more than {PROPERTIES_BYTES_MAX} bytes: put less beside the body",
        )
    return Send(
        producer_group=text(fields, names["a"]),
        topic=text(fields, names["b"]),
        default_topic=fields.get(names["c"], ""),
        default_queue_count=int32(fields, names["d"], 0),
        queue_id=int32(fields, names["e"]),
        sys_flag=int32(fields, names["f"]),
        born_ms=int64(fields, names["g"]),
        flag=int32(fields, names["h"]),
        properties=read_properties(properties),
        reconsume_count=int32(fields, names["j"], 0),
        batch=yes(fields, names["m"]) or frame.code == codes.SEND_BATCH_MESSAGE,
        broker_name=optional_text(fields, names["n"]) or optional_text(fields, "bname"),
        namespace=optional_text(fields, "ns") if yes(fields, "nsd") else None,
        body=frame.body,
    )


def read_batch(source: Frame | Send) -> list[BatchedMessage]:
    """The messages in the body of a batch. RemotingError when it does not parse."""
    body = source.body
    messages: list[BatchedMessage] = []
    at, end = 0, len(body)
    while at < end:
        if end - at < _BATCHED_HEAD.size:
            raise _broken_batch(len(messages))
        total_bytes, _, _, flag, body_bytes = _BATCHED_HEAD.unpack_from(body, at)
        body_at = at + _BATCHED_HEAD.size
        properties_at = body_at + body_bytes + 2
        stop = at + total_bytes
        if body_bytes < 0 or not properties_at <= stop <= end:
            raise _broken_batch(len(messages))
        size = int.from_bytes(body[properties_at - 2 : properties_at], "big")
        if properties_at + size != stop:
            raise _broken_batch(len(messages))
        try:
            properties = read_properties(body[properties_at:stop].decode())
        except UnicodeDecodeError:
            raise _broken_batch(len(messages)) from None
        messages.append(BatchedMessage(flag, properties, body[body_at : properties_at - 2]))
        if len(messages) > BATCH_COUNT_MAX:
            raise invalid(f"a batch of more than {BATCH_COUNT_MAX} messages: send smaller ones")
        at = stop
    if not messages:
        raise RemotingError(codes.MESSAGE_ILLEGAL, "the batch has no message in it")
    return messages


def _broken_batch(read_count: int) -> RemotingError:
    return RemotingError(
        codes.MESSAGE_ILLEGAL, f"the batch does not parse after {read_count} messages"
    )


def sent_reply(
    asked: Frame, message_id: str, queue_id: int, queue_offset: int, transaction_id: str | None
) -> bytes:
    """The answer to a message that is stored.

    Region and trace switch are left out: clients then take the default region.
    """
    fields = {
        "msgId": message_id,
        "queueId": str(queue_id),
        "queueOffset": str(queue_offset),
    }
    if transaction_id is not None:
        fields["transactionId"] = transaction_id
    return reply(asked, codes.SUCCESS, fields=fields)
