"""Encoded messages: byte for byte as RocketMQ 5.5 encodes them, and read back."""

from __future__ import annotations

import msgspec
import pytest

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.messages import EncodedMessage, decode_message, encode_message

V4 = EncodedMessage(
    topic="BenchmarkTest",
    queue_id=3,
    queue_offset=41,
    commit_log_offset=4_823_216_684,
    born_ms=1_795_281_319_490,
    born_host=("127.0.0.1", 51_234),
    stored_ms=1_795_281_319_500,
    store_host=("10.1.2.3", 10_911),
    body=b"golden body",
    properties={"TRAN_MSG": "true", "UNIQ_KEY": "FD01", "größe": "5 µm"},
    flag=7,
    prepared_offset=5,
)
V6 = msgspec.structs.replace(
    V4,
    born_host=("fd00::202", 51_234),
    store_host=("2001:db8::1", 10_911),
    sys_flag=codes.BORN_HOST_IPV6 | codes.STORE_HOST_IPV6,
)
#: By RocketMQ's own encoder from the same values.
V4_BYTES = bytes.fromhex(
    "0000009ddaa320a70c2f479900000003000000070000000000000029000000011f7c722c00000000000001a1ff1af6"
    "427f0000010000c822000001a1ff1af64c0a01020300002a9f0000000000000000000000050000000b676f6c64656e"
    "20626f64790d42656e63686d61726b54657374002a5452414e5f4d5347017472756502554e49515f4b455901464430"
    "31026772c3b6c39f65013520c2b56d02"
)
V6_BYTES = bytes.fromhex(
    "000000b5daa320a70c2f479900000003000000070000000000000029000000011f7c722c00000030000001a1ff1af6"
    "42fd0000000000000000000000000002020000c822000001a1ff1af64c20010db80000000000000000000000010000"
    "2a9f0000000000000000000000050000000b676f6c64656e20626f64790d42656e63686d61726b54657374002a5452"
    "414e5f4d5347017472756502554e49515f4b45590146443031026772c3b6c39f65013520c2b56d02"
)


@pytest.mark.parametrize(("message", "content"), [(V4, V4_BYTES), (V6, V6_BYTES)])
def test_a_message_has_the_bytes_that_rocketmq_gives_it(
    message: EncodedMessage, content: bytes
) -> None:
    assert encode_message(message) == content
    assert decode_message(content) == message


def test_the_bits_of_ipv6_follow_the_hosts() -> None:
    mixed = msgspec.structs.replace(V6, store_host=("10.1.2.3", 1))
    seen = decode_message(encode_message(mixed))
    assert seen.sys_flag == codes.BORN_HOST_IPV6
    assert (seen.born_host, seen.store_host) == (V6.born_host, ("10.1.2.3", 1))


def test_a_long_topic_takes_the_second_form() -> None:
    at_limit = msgspec.structs.replace(V4, topic="t" * 127)
    beyond = msgspec.structs.replace(V4, topic="t" * 128)
    assert encode_message(at_limit)[4:8].hex() == "daa320a7"
    assert encode_message(beyond)[4:8].hex() == "daa320ab"
    assert len(encode_message(beyond)) == len(encode_message(at_limit)) + 2
    assert decode_message(encode_message(beyond)) == beyond
    assert decode_message(encode_message(at_limit)) == at_limit


@pytest.mark.parametrize(
    "values",
    [{"topic": ""}, {"topic": "t" * 32_768}, {"properties": {"a": "x" * 32_766}}],
)
def test_what_does_not_fit_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(RemotingError, match="does not fit the form") as caught:
        encode_message(msgspec.structs.replace(V4, **values))
    assert caught.value.response_code == codes.MESSAGE_ILLEGAL


@pytest.mark.parametrize(
    "content",
    [
        *(V4_BYTES[:size] for size in range(len(V4_BYTES))),
        V4_BYTES + b"\0",
        b"\0\0\0\x9e" + V4_BYTES[4:] + b"\0",  # longer than its parts
        V4_BYTES[:7] + b"\xa8" + V4_BYTES[8:],
        V4_BYTES.replace(b"golden", b"gilded"),
        V4_BYTES.replace(b"Benchmark", b"Benchmar\xff"),
        V4_BYTES.replace(b"\0\0\0\x0bgolden", b"\xff\xff\xff\xffgolden"),
    ],
)
def test_a_damaged_message_is_refused(content: bytes) -> None:
    with pytest.raises(RemotingError, match="does not parse"):
        decode_message(content)
