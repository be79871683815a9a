"""Every reader of bytes from outside against changed inputs, for as long as you like: `make fuzz`.

    python tests/fuzz/mutating.py --seconds 600 --seed 7 [--only http,op]

A plain loop that changes what lies in `corpus/` and what is made here, and knows nothing of
coverage; remoting.py is guided by it, but needs atheris, which is no dependency. What must hold
stands in each target: bytes do no more than fail in the one way that the reader promises. What
breaks that is written into the corpus, where `tests/property/test_fuzzing.py` repeats it for ever.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import time
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from halfhitch.adapters.callback.target import Target
from halfhitch.adapters.kafka.skip_orders import parse as parse_skips
from halfhitch.adapters.native import owner as native_owner
from halfhitch.doors.http.load import Load
from halfhitch.doors.http.messages import messages_of, read_prepare
from halfhitch.doors.http.reader import RequestReader
from halfhitch.doors.http.requests import Request
from halfhitch.doors.rocketmq import inflaters
from halfhitch.errors import ConfigurationError, InvalidHandle
from halfhitch.service.checking import inbox
from halfhitch.service.owner.payloads import payload_of
from halfhitch.wire import half as half_wire
from halfhitch.wire import op as op_wire
from halfhitch.wire.count import forwarded
from halfhitch.wire.half import Garbage, HalfRecord, system_headers
from halfhitch.wire.handle import Handle, HandleCodec
from halfhitch.wire.plain import hides, shown, shown_json
from halfhitch.wire.remoting import compression, ending, frame, heartbeats, messages, sending
from halfhitch.wire.remoting.faults import FrameError, RemotingError
from harness.defaults import http_limits
from harness.native import native
from harness.worlds import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Callable

    from halfhitch.adapters.kafka.outside import Refused
    from halfhitch.ports import Payload

CORPUS = Path(__file__).with_name("corpus")
#: Beyond it inputs only get slower.
BYTES_MAX = 4_096
INTERESTING = [
    b"\x00", b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"-1", b"0", b"9" * 25, b";",
    b"\r\n", b"\r\n\r\n", b"\x1b", b"\xc2\x9b", b"\xe2\x80\xae", b"\xed\xa0\x80",
    b"Content-Length: 4\r\n", b"Transfer-Encoding: chunked\r\n", b"{", b"[", b'"', b"\\u0000",
    b"2;",
]  # fmt: skip


# -- what must hold ------------------------------------------------------------------------------


class _Sink:
    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []

    def request_received(self, request: Any) -> None:
        refused = request.ready is not None
        said = (request.method, request.target, bytes(request.body)) if not refused else ()
        self.seen.append((refused, *said))

    def body_announced(self, request: Any) -> None:
        return None

    def body_wanted(self, request: Any) -> None:
        return None


def _requests(pieces: list[bytes]) -> list[tuple[object, ...]]:
    load, sink = Load(), _Sink()
    reader = RequestReader(sink, limits=http_limits(body_bytes_max=500), load=load)  # type: ignore[arg-type]
    for piece in pieces:
        reader.feed(piece)
    reader.end()
    held = sum(len(seen[3]) for seen in sink.seen if len(seen) > 3)  # type: ignore[arg-type]
    assert load.buffered_bytes == held, "bytes are counted that nobody holds"
    return sink.seen


def http(content: bytes) -> None:
    """Nothing is raised, and where the stream is cut does not matter."""
    middle = len(content) // 2
    assert _requests([content]) == _requests([content[:middle], content[middle:]])


_REMOTING = (
    sending.read_send,
    sending.read_batch,
    ending.read_end,
    heartbeats.read_heartbeat,
    heartbeats.read_unregister,
    lambda seen: messages.decode_message(seen.body),
    *(
        lambda seen, kind=kind: compression.inflate(
            seen.body, 1 | kind << 8, 10_000, inflaters.available()
        )
        for kind in range(5)
    ),
)


def remoting(content: bytes) -> None:
    """FrameError or RemotingError, and nothing else."""
    frames = frame.Frames()
    try:
        seen = list(frames.feed(content))
    except FrameError:
        return
    for one in seen:
        for read in _REMOTING:
            try:
                read(one)
            except RemotingError:
                pass


def _headers(content: bytes) -> list[tuple[str, bytes | None]]:
    parts = content.split(b"\x01")
    names, values = parts[::2], parts[1::2]
    return [
        (name.decode(errors="replace"), None if value == b"null" else value)
        for name, value in zip(names, values, strict=False)
    ]


def half(content: bytes) -> None:
    """Garbage is a value; what is no garbage can be copied, forwarded and read again."""
    headers = _headers(content)
    found = half_wire.read_identity(7, 1, 10, headers)
    half_wire.read_record(7, headers)
    half_wire.read_forward(7, headers)
    if not isinstance(found, Garbage):
        copied = half_wire.copied_headers(headers, 7, check_count=3, stored_ms=5)
        again = half_wire.read_identity(9, 1, 10, copied)
        assert not isinstance(again, Garbage)
        assert (again.identity, again.index) == (found.identity, found.index)


def op(content: bytes) -> None:
    """Garbage is a value."""
    value, _, rest = content.partition(b"\x02")
    op_wire.read(7, 1, value, _headers(rest), content[:40] or None)


_HANDLES = HandleCodec([b"k" * 32, b"o" * 32], "cluster.prefix")


def handle(content: bytes) -> None:
    """Refused, or the very text that was handed out."""
    text = content.decode(errors="replace")
    try:
        found = _HANDLES.decode(text)
    except InvalidHandle:
        return
    assert _HANDLES.encode(found) == text


def inboxes(content: bytes) -> None:
    """ValueError, and nothing else."""
    for read in (
        inbox.read_question, inbox.read_report, inbox.read_forget, inbox.read_check_now,
    ):  # fmt: skip
        try:
            read(content)
        except ValueError:
            pass
    parse_skips(content.decode(errors="replace"))


def text(content: bytes) -> None:
    """Whatever it is, it is shown in one line that no terminal obeys."""
    found = content.decode(errors="surrogateescape")
    assert shown(found).isprintable()
    assert shown_json({"a": found}).isprintable()
    assert not hides(shown(found))


def callback(content: bytes) -> None:
    """ConfigurationError, or a target whose parts fit a request."""
    try:
        found = Target.parse(content.decode(errors="replace"), ["0.0.0.0/0", "::/0"])
    except ConfigurationError:
        return
    assert (found.path + found.host_header).isprintable()
    assert not found.trouble_with("10.0.0.1")


def rust(content: bytes) -> None:
    """None or what was read: a panic would end the process, and this one."""
    native.read_half(content, 1, "i", "group", "orders")
    native.read_end(content)
    native.http_half(content, 8_192, 1, "i", "id")
    native.http_end(content, 8_192)
    prepare(content)


def prepare(content: bytes) -> None:
    """What is taken of a body as JSON is what the data door's own reader makes of it."""
    head = b"POST /v1/transactions HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n"
    whole = head % len(content) + content
    kind, taken = native.http_prepare(whole, 8_192, 1, "i", "id")
    if kind != 1:
        assert kind == -1
        return
    request = Request(b"POST", b"/v1/transactions", [], keep_alive=True)
    request.body = content
    body = read_prepare(request)
    (message,) = messages_of(body.messages)
    _, _, group, topic, name, (key, value, headers, _) = taken
    assert (group, name) == (body.producer_group, body.transaction_id)
    assert (topic, key, value) == (message.topic, message.key, message.value)
    assert message.partition is None
    users = message.headers
    assert headers[len(headers) - len(users) :] == [(n.encode(), text) for n, text in users]


@cache
def _forwarder() -> Callable[[Payload], Refused | None]:
    way = native_owner.way_of(native)
    assert way is not None
    producer = Producer({"bootstrap.servers": NOWHERE, "log_level": 0})

    def forward(payload: Payload) -> Refused | None:
        refused = way.forward(producer, [(payload, 3)])
        producer.purge()
        producer.poll(0)
        return refused

    return forward


def owner(content: bytes) -> None:
    """A half is told and forwarded as Python would, or left to it."""
    content, _, rest = content.partition(b"\x02")
    key, _, value = content.partition(b"\x03")
    parts = rest.split(b"\x01")
    raw = [
        (name, None if each == b"null" else each)
        for name, each in zip(parts[::2], parts[1::2], strict=False)
    ]
    record = native.half_record("halves", 7, 1, None if key == b"null" else key, value, raw)
    payload = payload_of(record)
    try:
        headers = [(name.decode(), each) for name, each in raw]
    except UnicodeDecodeError:
        headers = []  # as both ways have it
    assert (payload.headers, payload.value) == (headers, value)
    facts, aim = payload.facts(), payload.aim()
    assert (facts is None) == (aim is None) == (payload.told() is None)
    refused = _forwarder()(payload)
    if facts is None or aim is None:
        assert refused is not None, "of another form, and given to Kafka"
        return
    size_bytes = payload.size_bytes
    told = half_wire.usual_identity(7, 1, size_bytes, facts)
    expected = half_wire.read_identity(7, 1, size_bytes, headers)
    assert not isinstance(expected, Garbage)
    assert all(getattr(told, one.name) == getattr(expected, one.name) for one in fields(expected))
    forward = half_wire.read_forward(7, headers)
    assert not isinstance(forward, Garbage)
    assert aim == (forward.target_topic, forward.target_partition)
    written = [(name.decode(), each) for name, each in native.forwarded_headers(payload, 3)]
    assert written == forwarded(headers, 3)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "http": http,
    "remoting": remoting,
    "half": half,
    "op": op,
    "handle": handle,
    "inbox": inboxes,
    "text": text,
    "callback": callback,
    **({} if native is None else {"rust": rust, "rust-json": prepare, "owner": owner}),
}


_HTTP = b"POST %b\r\nHost: h\r\nHalf-Producer-Group: g\r\n"
_CHUNKS = b"3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"


# -- what is tried -------------------------------------------------------------------------------


def made() -> dict[str, list[bytes]]:
    """Good inputs, as this release writes them: the corpus grows with the formats."""
    record = HalfRecord("order-1", "shop", 0, 1_700_000_000_000, "node-1", "orders", 3, digest=77)
    headers = [*system_headers(record), ("trace", b"1")]
    half_input = b"\x01".join(part for name, value in headers for part in (name.encode(), value))
    note, note_headers = op_wire.write_note(
        ("shop", "order-1"), action="commit", operator="ops", reason="why"
    )
    note_input = b"\x01".join(
        part for name, value in note_headers for part in (name.encode(), value)
    )
    send = {
        "a": "pg", "b": "orders", "c": "TBW102", "d": "4", "e": "3", "f": "4", "g": "1795281319490",
        "h": "0", "i": "TRAN_MSG\1true\2UNIQ_KEY\1FD00\2KEYS\1k\2", "j": "0", "k": "false",
    }  # fmt: skip
    end = {
        "producerGroup": "pg", "commitLogOffset": "281474976710658", "msgId": "FD00",
        "tranStateTableOffset": "2", "commitOrRollback": "8", "transactionId": "FD00",
        "fromTransactionCheck": "false",
    }  # fmt: skip
    frames = [
        frame.encode(frame.request(310, 1, send, b"body")),
        frame.encode(frame.request(37, 2, end, flag=2)),
        frame.encode(
            frame.request(34, 3, {}, b'{"clientID":"c","producerDataSet":[{"groupName":"g"}]}')
        ),
    ]
    return {
        "http": [
            _HTTP % b"/v1/topics/o/half HTTP/1.1" + b"Content-Length: 4\r\n\r\nabcd",
            _HTTP % b"/v1/transactions HTTP/1.1" + b"Transfer-Encoding: chunked\r\n\r\n" + _CHUNKS,
            _HTTP % b"/v1/transactions HTTP/1.0" + b"Expect: 100-continue\r\n\r\n",
        ],
        "remoting": [*frames, b"".join(frames)],
        "rust": frames,
        "rust-json": [
            b'{"producer_group":"g","messages":[{"topic":"t","value":"v","key":"k"}]}',
            (
                b'{"messages":[{"value":{"a":[1.5e3,"\\ud83d\\ude00",null]},"topic":"t",'
                b'"headers":{"a":"\\u00e9"}}],"transaction_id":"T1","immunity_seconds":60,'
                b'"producer_group":"g"}'
            ),
            (
                b'{"producer_group":"g","messages":[{"topic":"t","value_base64":"AP8=",'
                b'"key_base64":"aw==","headers":[["a","b"],["c",{"base64":"/w=="}]],'
                b'"partition":null}]}'
            ),
        ],
        "half": [half_input],
        "owner": [b"null\x03\x02" + half_input, b"k\x03v\x02" + half_input + b"\x01n\x01null"],
        "op": [note + b"\x02" + note_input, b"17,18,\x02TAGS\x01d\x01HALFHITCH\x01" + b"1[]"],
        "handle": [_HANDLES.encode(Handle(3, "shop", "order-1", (17, 18), ("orders",))).encode()],
        "inbox": [
            inbox.check_now_body(3, ("shop", "order-1")),
            inbox.forget_body("node-1", ("shop", "order-1")),
        ],
        "text": ["pay-\u202e7\x9b\u2028\U000e0041é".encode()],
        "callback": [b"https://[64:ff9b:1::a9fe:a9fe]:8443/checks?key=1", b"http://app/"],
    }  # type: ignore[dict-item]


def inputs(name: str) -> list[bytes]:
    """Made and kept, of one target."""
    kept = [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]
    return made()[name] + kept


def changed(rng: random.Random, known: list[bytes]) -> bytes:
    """One of them, changed in one to four places."""
    found = bytearray(rng.choice(known))
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(found))
        change = rng.randrange(6)
        if change == 0 and found:
            found[at % len(found)] ^= 1 << rng.randrange(8)
        elif change == 1:
            found[at:at] = rng.choice(INTERESTING)
        elif change == 2:
            del found[at : at + rng.randint(1, 8)]
        elif change == 3:
            found[at:at] = rng.randbytes(rng.randint(1, 8))
        elif change == 4:
            other = rng.choice(known)
            cut = rng.randint(0, len(other))
            found[at:] = other[cut:]
        else:
            piece = found[at : at + rng.randint(1, 40)]
            found[at:at] = piece * rng.randint(1, 20)
    return bytes(found[:BYTES_MAX])


def keep(name: str, content: bytes) -> Path:
    """For ever: it becomes a test."""
    folder = CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"broke-{hashlib.sha256(content).hexdigest()[:16]}"
    path.write_bytes(content)
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--only", default=",".join(TARGETS))
    chosen = parser.parse_args()
    rng = random.Random(chosen.seed)
    print(f"seed {chosen.seed}")
    names = chosen.only.split(",")
    until_s = time.monotonic() + chosen.seconds
    known = {name: inputs(name) for name in names}
    counts = dict.fromkeys(names, 0)
    while time.monotonic() < until_s:
        for name in names:
            target = TARGETS[name]
            for _ in range(200):
                content = changed(rng, known[name])
                try:
                    target(content)
                except Exception:
                    print(f"{name}: {keep(name, content)} breaks what must hold", file=sys.stderr)
                    raise
                counts[name] += 1
    print(", ".join(f"{name} {count:,}" for name, count in counts.items()) + ": all held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
