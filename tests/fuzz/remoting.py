"""Coverage-guided fuzzing of the RocketMQ codec, by hand, for as long as you like.

    python3.11 -m venv /tmp/fuzz && /tmp/fuzz/bin/pip install atheris -e .
    /tmp/fuzz/bin/python tests/fuzz/remoting.py -max_total_time=60 -max_len=4096 [corpus folder]

atheris is no dependency of the project: it needs its own interpreter and a compiler of its kind. A
crash is written to a file; giving that file instead of the options repeats it. What must hold:
bytes from outside raise FrameError or RemotingError and nothing else, cut anywhere they give the
same frames, and every frame can be written and read again.
"""

import sys

import atheris

with atheris.instrument_imports(include=["halfhitch.wire.remoting"]):
    from halfhitch.wire.remoting import (
        checking,
        codes,
        compression,
        ending,
        frame,
        heartbeats,
        ids,
        messages,
        properties,
        requests,
        routing,
        sending,
        signature,
    )
    from halfhitch.wire.remoting.faults import FrameError, RemotingError

READERS = (
    sending.read_send,
    sending.read_batch,
    ending.read_end,
    checking.read_check,
    heartbeats.read_heartbeat,
    heartbeats.read_unregister,
    routing.read_route_request,
    routing.read_max_offset_request,
    lambda asked: signature.verify(asked, "secret"),
    lambda asked: messages.decode_message(asked.body),
    lambda asked: compression.inflate(asked.body, asked.flag, 10_000),
    lambda asked: ids.read_message_id(asked.remark or ""),
    lambda asked: properties.read_properties(asked.remark or ""),
)
SEND = {
    "a": "pg", "b": "topic", "c": "TBW102", "d": "4", "e": "3", "f": "4", "g": "1795281319490",
    "h": "0", "i": "TRAN_MSG\1true\2UNIQ_KEY\1FD00\2", "j": "0", "k": "false", "m": "false",
}  # fmt: skip
END = {
    "producerGroup": "pg", "bname": "hh", "commitLogOffset": "281474976710658", "topic": "topic",
    "msgId": "FD00", "tranStateTableOffset": "2", "commitOrRollback": "8", "transactionId": "FD00",
    "fromTransactionCheck": "false",
}  # fmt: skip
BINARY = requests.Form.BINARY
KNOWN = b"".join(
    frame.encode(frame.request(code, 1, fields, form=BINARY))
    for code, fields in ((codes.SEND_MESSAGE_V2, SEND), (codes.END_TRANSACTION, END))
)


def outcome(read, asked):
    try:
        return read(asked)
    except RemotingError as error:
        return error.response_code, error.remark


def told(seen: requests.Frame) -> tuple[object, ...]:
    fields = outcome(lambda asked: asked.fields, seen)
    return seen.code, seen.opaque, seen.flag, seen.remark, fields, seen.body, seen.form


def read_all(stream: bytes, cut: int) -> tuple[list[requests.Frame], str]:
    frames = frame.Frames()
    seen: list[requests.Frame] = []
    try:
        for part in (stream[:cut], stream[cut:]):
            seen += frames.feed(part)
    except FrameError:
        pass  # what `broken` says as well
    return seen, str(frames.broken)


def stream_of(content: bytes) -> bytes:
    """As it is, or framed, or as a change to the usual requests: else most would end early."""
    kind, rest = content[:1], content[1:]
    if kind < b"\x40":
        return rest
    if kind < b"\x80":
        return len(rest).to_bytes(4, "big") + rest
    at = int.from_bytes(rest[:2], "big") % len(KNOWN)
    gone = int.from_bytes(rest[2:3], "big") % 8
    return KNOWN[:at] + rest[3:] + KNOWN[at + gone :]


def one_input(content: bytes) -> None:
    stream = stream_of(content)
    seen, broken = read_all(stream, len(stream))
    cut, cut_broken = read_all(stream, stream[-1] if stream else 0)
    assert [told(one) for one in seen] == [told(one) for one in cut]
    assert broken == cut_broken
    for one in seen:
        for read in READERS:
            outcome(read, one)
        if -(2**15) <= one.code < 2**15:
            (again,) = frame.Frames().feed(frame.encode(one))
            assert told(again) == told(one)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
