"""Frames: cut out of the stream, limited, written; both header forms as RocketMQ writes them."""

from __future__ import annotations

from struct import pack

import pytest

from halfhitch.wire.remoting import codes, frame
from halfhitch.wire.remoting.faults import FrameError, RemotingError
from halfhitch.wire.remoting.fields import read_fields, write_fields
from halfhitch.wire.remoting.frame import Frames
from halfhitch.wire.remoting.requests import Form, Frame

#: One request to end a transaction, written by the Java client in both forms.
END_JSON = (
    b'\0\0\1\x4f\0\0\1\x48{"code":37,"extFields":{"producerGroup":"pg","bname":"hh",'
    b'"commitLogOffset":"844424930131969","topic":"t","msgId":"FD01","tranStateTableOffset":"5",'
    b'"commitOrRollback":"8","transactionId":"FD01","fromTransactionCheck":"true"},"flag":2,'
    b'"language":"JAVA","opaque":77,"remark":"boom \xc3\xa9","serializeTypeCurrentRPC":"JSON",'
    b'"version":0}xyz'
)
END_BINARY = bytes.fromhex(
    "000000eb010000e400250000000000004d0000000200000007626f6f6d20c3a9000000c8000d70726f6475636572"
    "47726f75700000000270670005626e616d65000000026868000f636f6d6d69744c6f674f66667365740000000f38"
    "34343432343933303133313936390005746f706963000000017400056d73674964000000044644303100147472616e"
    "53746174655461626c654f666673657400000001350010636f6d6d69744f72526f6c6c6261636b0000000138000d74"
    "72616e73616374696f6e49640000000446443031001466726f6d5472616e73616374696f6e436865636b00000004"
    "7472756578797a"
)
END_FIELDS = {
    "producerGroup": "pg", "bname": "hh", "commitLogOffset": "844424930131969", "topic": "t",
    "msgId": "FD01", "tranStateTableOffset": "5", "commitOrRollback": "8", "transactionId": "FD01",
    "fromTransactionCheck": "true",
}  # fmt: skip


def binary(header: bytes, body: bytes = b"", form: int = 1) -> bytes:
    return pack(">iI", 4 + len(header) + len(body), form << 24 | len(header)) + header + body


def fixed(remark: bytes = b"", fields: bytes = b"", *, code: int = 34) -> bytes:
    head = pack(">hbhiii", code, 0, 513, 5, 0, len(remark))
    return head + remark + pack(">i", len(fields)) + fields


@pytest.mark.parametrize(("content", "form"), [(END_JSON, Form.JSON), (END_BINARY, Form.BINARY)])
def test_both_forms_of_the_java_client_say_the_same(content: bytes, form: Form) -> None:
    (seen,) = Frames().feed(content)
    assert (seen.code, seen.opaque, seen.flag, seen.language) == (37, 77, 2, 0)
    assert seen.remark == "boom é"
    assert seen.fields == END_FIELDS
    assert seen.body == b"xyz"
    assert seen.form is form
    assert seen.is_one_way
    assert not seen.is_response


def test_the_binary_form_is_written_as_java_writes_it() -> None:
    sent = Frame(37, 77, 2, 0, 0, "boom é", b"xyz", Form.BINARY, b"", END_FIELDS)
    assert frame.encode(sent) == END_BINARY


def test_fields_stay_bytes_until_they_are_asked_for() -> None:
    raw = write_fields({"a": "b"})
    (seen,) = Frames().feed(binary(fixed(fields=raw), b"body"))
    assert seen.raw_fields == raw
    assert seen.known_fields is None
    assert seen.fields == {"a": "b"}
    assert seen.fields is seen.fields
    assert seen.body == b"body"
    assert seen.remark is None
    assert frame.encode(seen) == frame.encode(Frames().feed(frame.encode(seen))[0])


def test_a_remark_is_not_taken_for_the_length_of_the_fields() -> None:
    (seen,) = Frames().feed(binary(fixed(b"\0\0\0\x08abcd"), b"body"))
    assert seen.remark == "\0\0\0\x08abcd"
    assert seen.fields == {}
    assert seen.body == b"body"


def test_frames_arrive_in_any_pieces() -> None:
    stream = END_JSON + END_BINARY + binary(fixed(), b"1")
    frames = Frames()
    seen = [one for at in range(len(stream)) for one in frames.feed(stream[at : at + 1])]
    assert [one.body for one in seen] == [b"xyz", b"xyz", b"1"]
    assert frames.held_bytes == 0
    assert [one.body for one in Frames().feed(stream)] == [b"xyz", b"xyz", b"1"]


def test_an_unfinished_frame_is_held_and_no_more() -> None:
    frames = Frames()
    assert frames.feed(END_JSON + END_BINARY[:50])
    assert frames.held_bytes == 50
    assert frames.feed(END_BINARY[50:-1]) == []
    (seen,) = frames.feed(END_BINARY[-1:])
    assert seen.fields == END_FIELDS
    plain = binary(fixed(), b"12")
    assert frames.feed(plain[:-1]) == []
    assert [one.body for one in frames.feed(plain[-1:])] == [b"12"]


@pytest.mark.parametrize("length", [-1, 0, 3, frame.FRAME_BYTES_MAX + 1, 2**31 - 1, -(2**31)])
def test_a_length_out_of_range_is_refused_with_its_four_bytes(length: int) -> None:
    frames = Frames()
    with pytest.raises(FrameError, match=f"a frame of {length} bytes"):
        frames.feed(pack(">i", length))
    assert frames.held_bytes == 0


def test_the_limit_is_the_doors_choice() -> None:
    frames = Frames(frame_bytes_max=30)
    assert frames.feed(binary(fixed(), b"12345"))
    with pytest.raises(FrameError, match="4 to 30 are allowed"):
        frames.feed(binary(fixed(), b"123456"))


def test_frames_before_a_broken_one_are_given_first() -> None:
    frames = Frames()
    (seen,) = frames.feed(END_JSON + b"\xff\xff\xff\xff")
    assert seen.body == b"xyz"
    assert frames.broken is not None
    with pytest.raises(FrameError, match="a frame of -1 bytes"):
        frames.feed(b"")
    with pytest.raises(FrameError, match="a frame of -1 bytes"):
        frames.feed(END_JSON)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (binary(b"", form=2), "form 2"),
        (pack(">iI", 4, 1), "a header of 1 bytes in a frame of 4"),
        (pack(">iI", 262_200, 262_145) + bytes(262_196), "a header of 262145 bytes"),
        (binary(fixed()[:20]), "ends before its fixed part"),
        (binary(pack(">hbhiii", 1, 0, 0, 0, 0, -5) + bytes(4)), "a remark of -5 bytes"),
        (binary(pack(">hbhiii", 1, 0, 0, 0, 0, 1) + bytes(4)), "a remark of 1 bytes"),
        (binary(fixed(b"\xff")), "a remark that is not UTF-8"),
        (binary(fixed() + b"1"), "fields of 0 bytes where the header has 1 left"),
        (binary(fixed()[:-4] + b"\xff\xff\xff\xff", b"body"), "fields of -1 bytes"),
        (
            pack(">iI", 28, 1 << 24 | 20) + fixed()[:17] + b"\xff\xff\xff\xff" + bytes(8),
            "ends before its fixed part",
        ),
        (
            pack(">iI", 25, 1 << 24 | 31) + fixed(fields=bytes(10)) + END_BINARY,
            "a header of 31 bytes in a frame of 25",
        ),
        (binary(b"{", form=0), "does not parse"),
        (binary(b'{"code":"x"}', form=0), "does not parse"),
        (binary(b'{"code":1,"remark":"\xff"}', form=0), "does not parse"),
        (binary(b'{"code":1,"opaque":2147483648}', form=0), "the number 2147483648"),
        (binary(b"[" * 100_000, form=0), "does not parse"),
    ],
)
def test_a_header_that_cannot_be_read_breaks_the_stream(content: bytes, reason: str) -> None:
    frames = Frames()
    with pytest.raises(FrameError, match=reason):
        frames.feed(content)
    assert frames.broken is not None


@pytest.mark.parametrize(
    ("header", "language", "fields"),
    [
        (b'{"code":1}', codes.ANSWERED_LANGUAGE, {}),
        (b'{"code":1,"language":"GO","extFields":{"a":"b"}}', 9, {"a": "b"}),
        (b'{"code":1,"language":12,"extFields":{"a":null,"b":"c"}}', 12, {"b": "c"}),
        (b'{"code":1,"language":"KLINGON"}', codes.ANSWERED_LANGUAGE, {}),
        (
            b'{"code":1,"extFields":{"a":5,"b":true,"c":1.5},"more":[1]}',
            codes.ANSWERED_LANGUAGE,
            {"a": "5", "b": "true", "c": "1.5"},
        ),
    ],
)
def test_json_headers_of_other_clients_are_read(
    header: bytes, language: int, fields: dict[str, str]
) -> None:
    (seen,) = Frames().feed(binary(header, form=0))
    assert seen.language == language
    assert seen.fields == fields
    assert seen.remark is None


@pytest.mark.parametrize(
    ("raw", "at"),
    [
        (b"\0", 0),
        (b"\0\1a\0\0\0", 0),
        (b"\0\1a\0\0\0\2b", 2),
        (b"\0\1a\xff\xff\xff\xff", 2),
        (b"\0\1\xff\0\0\0\0", 2),
        (b"\0\1a\0\0\0\1b\0\1c\0\0\0\1\xff", 10),
    ],
)
def test_fields_that_do_not_parse_are_one_requests_trouble(raw: bytes, at: int) -> None:
    frames = Frames()
    broken, fine = frames.feed(binary(fixed(fields=raw)) + END_BINARY)
    with pytest.raises(RemotingError, match=f"from byte {at} on") as caught:
        _ = broken.fields
    assert caught.value.response_code == codes.INVALID_PARAMETER
    assert fine.fields == END_FIELDS


def test_a_field_name_has_a_limit() -> None:
    assert read_fields(write_fields({"x" * 32_767: ""})) == {"x" * 32_767: ""}
    with pytest.raises(ValueError, match="32768 bytes"):
        write_fields({"x" * 32_768: ""})


@pytest.mark.parametrize("content", [END_JSON, END_BINARY])
def test_an_answer_takes_form_and_opaque_of_its_request(content: bytes) -> None:
    (asked,) = Frames().feed(content)
    answers = frame.reply(asked, 17, "no such topic", {"a": "b"}, b"body") + frame.reply(asked, 0)
    no, yes = Frames().feed(answers)
    assert (no.code, no.opaque, no.flag, no.remark) == (17, 77, 1, "no such topic")
    assert (no.fields, no.body, no.form) == ({"a": "b"}, b"body", asked.form)
    assert (no.language, no.version) == (7, 479)
    assert no.is_response
    assert not no.is_one_way
    assert (yes.code, yes.opaque, yes.remark, yes.fields, yes.body) == (0, 77, None, {}, b"")


def test_a_request_of_ours_is_written_in_json() -> None:
    sent = frame.request(39, 3, {"a": "é"}, b"body", flag=codes.ONE_WAY_FLAG)
    assert frame.encode(sent) == binary(
        '{"code":39,"language":"OTHER","version":479,"opaque":3,"flag":2,"extFields":{"a":"é"},'
        '"serializeTypeCurrentRPC":"JSON"}'.encode(),
        b"body",
        form=0,
    )


def test_languages_have_names() -> None:
    assert frame.language_name(0) == "JAVA"
    assert frame.language_name(12) == "RUST"
    assert frame.language_name(-1) == "OTHER"
    assert frame.language_name(14) == "OTHER"


def test_one_byte_tells_tls() -> None:
    assert frame.starts_tls(b"\x16\x03\x01")
    assert not frame.starts_tls(END_JSON)
    assert not frame.starts_tls(b"")
    with pytest.raises(FrameError):
        Frames().feed(b"\x16\x03\x01\x02")
