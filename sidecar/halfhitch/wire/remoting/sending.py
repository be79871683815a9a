"""Requests that bring messages: 10 and 310 with one, 320 with several; and their answer.

`read_send` gives the same whether a header is JSON or binary, with long names or with letters. The
body stays as it came: `compression.inflate` undoes what the client did to it.
"""

from operator import methodcaller
from struct import Struct
from typing import Final

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.fields import int32, int64, invalid, optional_text, text, yes
from halfhitch.wire.remoting.frame import reply
from halfhitch.wire.remoting.properties import PROPERTIES_BYTES_MAX, read_properties
from halfhitch.wire.remoting.requests import BatchedMessage, Form, Frame, Send
from halfhitch.wire.remoting.shapes import PIECE_BYTES_MAX, Shapes, keep, spans

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
    shapes = frame.shapes
    if shapes is None or frame.code != codes.SEND_MESSAGE_V2:
        return _read_any(frame)
    send = _read_known(frame, shapes)
    if send is None:
        send = _read_any(frame)
        _learn(frame.raw_fields, send, shapes)
    return send


#: The key of field e, and so much of its length as is always the same.
_QUEUE_ID: Final = b"\0\1e\0\0\0"
#: The key of field g and its length: until the year 2286 a time of birth has 13 digits.
_BORN: Final = b"\0\1g\0\0\0\x0d"
_BORN_DIGITS: Final = 13
#: Field h with one digit, and the key of field i with the upper half of its length.
_FLAG_BYTES: Final = 13
_SIZE_HIGH_MAX: Final = PROPERTIES_BYTES_MAX >> 8
_BEFORE: Final = frozenset((b"a", b"b", b"c", b"d"))
_BETWEEN: Final = [b"e", b"f", b"g", b"h", b"i"]
_AFTER: Final = frozenset((b"j", b"k", b"l", b"m", b"n", b"bname", b"ns", b"nsd"))
_NAME_AND_VALUE: Final = methodcaller("split", "\1", 1)


def _read_known(frame: Frame, shapes: Shapes) -> Send | None:
    """By the shapes of earlier requests; None when this one is unlike them."""
    raw = frame.raw_fields
    queue_at = raw.find(_QUEUE_ID)
    born_at = raw.find(_BORN, queue_at) + 7
    if not 0 <= queue_at < born_at:
        return None  # compiled, a slice must not end before it begins
    flag_at = born_at + _BORN_DIGITS
    size_at = flag_at + _FLAG_BYTES
    born = raw[born_at:flag_at]
    try:
        producer_group, topic, default_topic, default_queue_count = shapes.prefixes[raw[:queue_at]]
        queue_id, sys_flag = shapes.middles[raw[queue_at:born_at]]
        flag = shapes.flags[raw[flag_at:size_at]]
        size_high = raw[size_at]
        end = size_at + 2 + (size_high << 8 | raw[size_at + 1])
        reconsume_count, batch, broker_name, namespace = shapes.suffixes[raw[end:]]
        # Most clients end with a separator. A header that ends too early has no such byte.
        stop = end - (raw[end - 1] == 2)
        pieces = raw[size_at + 2 : stop].decode().split("\2")
        properties: dict[str, str] = dict(map(_NAME_AND_VALUE, pieces))
    except (LookupError, ValueError):  # unknown pieces; a property that reading in full leaves out
        return None
    if (
        size_high > _SIZE_HIGH_MAX
        or not born.isdigit()
        or "" in properties
        or "" in properties.values()
    ):
        return None
    return Send(
        producer_group, topic, default_topic, default_queue_count, queue_id, sys_flag, int(born),
        flag, properties, reconsume_count, batch, broker_name, namespace, frame.body,
    )  # fmt: skip


def _learn(raw: bytes, send: Send, shapes: Shapes) -> None:
    """Keep the pieces of a header that was read in full, if it is of the usual kind."""
    fields = spans(raw)
    names = [field.name for field in fields]
    first = names.index(b"e")
    after = names[first + 5 :]
    if (
        names[first : first + 5] != _BETWEEN
        or not _BEFORE.issuperset(names[:first])
        or not _AFTER.issuperset(after)
    ):
        return
    queue, _, born, _, properties = fields[first : first + 5]
    prefix, suffix = raw[: queue.at], raw[properties.end :]
    size_at = born.end + _FLAG_BYTES
    if (
        max(len(prefix), len(suffix), born.value_at - queue.at) > PIECE_BYTES_MAX
        or properties.value_at != size_at + 2
    ):
        return
    keep(
        shapes.prefixes,
        prefix,
        (send.producer_group, send.topic, send.default_topic, send.default_queue_count),
    )
    keep(shapes.middles, raw[queue.at : born.value_at], (send.queue_id, send.sys_flag))
    keep(shapes.flags, raw[born.end : size_at], send.flag)
    keep(
        shapes.suffixes,
        suffix,
        (send.reconsume_count, send.batch, send.broker_name, send.namespace),
    )


def _read_any(frame: Frame) -> Send:
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
    """The answer to a message that is stored. `message_id` must have 32 or 56 hexadecimal digits.

    Region and trace switch are left out: clients then take the default region.
    """
    if (
        asked.form is not Form.BINARY
        or len(message_id) >= _ONE_BYTE
        or transaction_id is None
        or len(transaction_id) >= _ONE_BYTE
        or not transaction_id.isascii()
    ):
        return _sent_reply(asked, message_id, queue_id, queue_offset, transaction_id)
    number, place = str(queue_id), str(queue_offset)
    # One character for each length, for all are below 128.
    fields = (
        f"\0\5msgId\0\0\0{chr(len(message_id))}{message_id}"
        f"\0\7queueId\0\0\0{chr(len(number))}{number}"
        f"\0\x0bqueueOffset\0\0\0{chr(len(place))}{place}"
        f"\0\x0dtransactionId\0\0\0{chr(len(transaction_id))}{transaction_id}"
    ).encode()
    size = len(fields)
    return (
        _REPLY_HEAD.pack(
            size + 25, _BINARY_MARK + size, _REPLY_START, asked.opaque, _RESPONSE_NO_REMARK, size
        )
        + fields
    )


_ONE_BYTE: Final = 128
#: length, form and header length, code with language and version, opaque, flag with the length of
#: the remark, length of the fields.
_REPLY_HEAD: Final = Struct(">iI5siqi")
_REPLY_START: Final = Struct(">hbh").pack(
    codes.SUCCESS, codes.ANSWERED_LANGUAGE, codes.ANSWERED_VERSION
)
_RESPONSE_NO_REMARK: Final = codes.RESPONSE_FLAG << 32
_BINARY_MARK: Final = (1 << 24) + 21


def _sent_reply(
    asked: Frame, message_id: str, queue_id: int, queue_offset: int, transaction_id: str | None
) -> bytes:
    fields = {
        "msgId": message_id,
        "queueId": str(queue_id),
        "queueOffset": str(queue_offset),
    }
    if transaction_id is not None:
        fields["transactionId"] = transaction_id
    return reply(asked, codes.SUCCESS, fields=fields)
