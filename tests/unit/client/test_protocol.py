import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfhitch.client import protocol
from halfhitch.client.protocol import ProtocolError, ResponseParser

GOOD = {
    "counted": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: a\r\nX: b\r\n\r\nhello",
    "empty": b"HTTP/1.1 201 Created\r\nHalf-Handle: h\r\nContent-Length: 0\r\n\r\n",
    "none": b"HTTP/1.1 204 No Content\r\n\r\n",
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: t\r\n\r\n",
    "interim": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx",
    "no reason": b"HTTP/1.1 503 \r\ncontent-length:0\r\n\r\n",
    "same length twice": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
}
EXPECTED = {
    "counted": (200, b"hello"),
    "empty": (201, b""),
    "none": (204, b""),
    "chunked": (200, b"hello"),
    "interim": (200, b"x"),
    "no reason": (503, b""),
    "same length twice": (200, b"x"),
}
BAD = {
    "not http": b"SSH-2.0-OpenSSH_9.6\r\n",
    "http/2": b"HTTP/2 200\r\n\r\n",
    "no blank": b"HTTP/1.1200 OK\r\n\r\n",
    "status words": b"HTTP/1.1 abc\r\n\r\n",
    "status long": b"HTTP/1.1 2000 OK\r\n\r\n",
    "status zero": b"HTTP/1.1 000 OK\r\n\r\n",
    "status arabic": "HTTP/1.1 ٢٠٠ OK\r\n\r\n".encode(),
    "switching": b"HTTP/1.1 101 Switching\r\n\r\n",
    "no colon": b"HTTP/1.1 200 OK\r\nwrong\r\n\r\n",
    "folded": b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
    "blank in name": b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
    "no name": b"HTTP/1.1 200 OK\r\n: b\r\n\r\n",
    "null in value": b"HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n",
    "bare newline": b"HTTP/1.1 200 OK\r\nA: b\nB: c\r\n\r\n",
    "bare return": b"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "length list": b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n",
    "negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "signed length": b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
    "empty length": b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
    "huge length": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
    "endless length": b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 50 + b"\r\n\r\n",
    "both framings": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "other coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "chunk size word": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "chunk size empty": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
    "chunk size prefix": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\n",
    "chunk size huge": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
    "chunk too long": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    "endless chunk line": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 1030,
    "endless trailer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    + b"a" * 1030
    + b"\r\n",
}


def fed(data, sizes=None):
    """The answer, however the bytes are cut."""
    parser = ResponseParser()
    response = None
    at = 0
    for size in sizes or [len(data)]:
        response = parser.feed(data[at : at + size])
        at += size
        if response is not None:
            break
    return response


@pytest.mark.parametrize("name", GOOD)
def test_an_answer_is_the_same_whole_and_byte_by_byte(name):
    whole = fed(GOOD[name])
    assert whole == fed(GOOD[name], [1] * len(GOOD[name]))
    assert (whole.status, whole.body) == EXPECTED[name]
    assert whole.reusable


@given(st.sampled_from(sorted(GOOD)), st.lists(st.integers(1, 40), max_size=40))
def test_where_the_bytes_are_cut_never_changes_the_answer(name, sizes):
    data = GOOD[name]
    assert fed(data, [*sizes, len(data)]) == fed(data)


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_an_answer_is_refused_whole_and_byte_by_byte(name):
    with pytest.raises(ProtocolError):
        fed(BAD[name])
    with pytest.raises(ProtocolError):
        fed(BAD[name], [1] * len(BAD[name]))


@given(st.binary(max_size=300), st.sampled_from([b"", *GOOD.values(), *BAD.values()]))
def test_any_bytes_give_an_answer_or_a_protocol_error_and_nothing_else(noise, start):
    for data in (noise, start[: len(noise)] + noise, start + noise):
        parser = ResponseParser()
        try:
            if parser.feed(data) is None:
                parser.end()
        except ProtocolError:
            pass


def test_header_names_are_lower_case_and_repeated_ones_joined():
    headers = fed(GOOD["counted"]).headers
    assert headers == {"content-length": "5", "x": "a, b"}


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Close, x\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n",
    ],
)
def test_a_connection_is_not_reused_when_it_ends_or_more_was_sent_than_asked(data):
    assert not fed(data).reusable


def test_a_body_without_a_length_ends_with_the_connection():
    parser = ResponseParser()
    assert parser.feed(b"HTTP/1.1 500 Oops\r\n\r\nall ") is None
    assert parser.feed(b"of it") is None
    response = parser.end()
    assert (response.status, response.body, response.reusable) == (500, b"all of it", False)


def test_an_early_end_is_an_error_that_says_how_early():
    with pytest.raises(ProtocolError, match="before the answer"):
        ResponseParser().end()
    parser = ResponseParser()
    parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
    with pytest.raises(ProtocolError, match="in the middle"):
        parser.end()


def test_memory_stays_bounded_whatever_is_sent(monkeypatch):
    monkeypatch.setattr(protocol, "HEAD_BYTES_MAX", 100)
    monkeypatch.setattr(protocol, "BODY_BYTES_MAX", 10)
    with pytest.raises(ProtocolError, match="head of more"):
        fed(b"HTTP/1.1 200 OK\r\nA: " + b"a" * 100)
    with pytest.raises(ProtocolError, match="body of more"):
        fed(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n")
    with pytest.raises(ProtocolError, match="body of more"):
        fed(b"HTTP/1.1 200 OK\r\n\r\n" + b"a" * 11)
    with pytest.raises(ProtocolError, match="body of more"):
        fed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\naaaaaa\r\n6\r\naaaaaa\r\n")
