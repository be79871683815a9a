"""The stream of checks without sockets: parsing, silence, heartbeats, pauses, bad lines."""

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfhitch.client import checks, why
from halfhitch.client.checks import CheckStream, Lifeline, StreamLost, StreamRefused
from halfhitch.client.protocol import ProtocolError, Response
from halfhitch.client.values import LocalTransactionState, Message
from harness.check_streams import HEAD, HEARTBEAT, check_of, chunk

LOGGER = "halfhitch.client"


def line_of(content):
    return json.dumps(content).encode() + b"\n"


def opened(now_s=0.0):
    stream = CheckStream("orders", now_s)
    assert list(stream.feed(HEAD, now_s)) == []
    return stream


def fed(*lines, stream=None):
    stream = stream or opened()
    return list(stream.feed(b"".join(chunk(line) for line in lines), 0.0))


def ids(found):
    return [check.transaction_id for check in found]


# -- what comes


def test_a_check_has_every_field_and_all_messages_with_bytes():
    (check,) = fed(
        line_of(
            check_of(
                "t1",
                check_number=3,
                age_ms=6500,
                messages=[
                    {
                        "topic": "orders",
                        "key": "é",
                        "value_base64": "/wA=",
                        "headers": [["a", "1"], ["a", None], ["b", {"base64": "/w=="}]],
                        "partition": 2,
                    },
                    {"topic": "points", "key_base64": "AA==", "value": ""},
                    {"topic": "points"},
                ],
                later_field=True,
            )
        )
    )
    assert check[:6] == ("t1", "orders", "h-t1", 3, 15, 6.5)
    headers = [("a", b"1"), ("a", None), ("b", b"\xff")]
    assert check.messages == (
        Message("orders", b"\xff\0", "é".encode(), headers, 2, "t1"),
        Message("points", b"", b"\0", None, None, "t1"),
        Message("points", None, None, None, None, "t1"),
    )


@pytest.mark.parametrize("width", [1, 2, 3, 7, 1000])
def test_the_stream_may_come_in_any_pieces(width):
    lines = [line_of(check_of(f"t{number}")) for number in range(4)]
    text = b"".join(lines)
    body = chunk(text[:5]) + chunk(text[5:600]) + chunk(text[600:]) + b"0\r\n\r\n"
    stream = CheckStream("orders", 0.0)
    found = []
    raw = HEAD + body
    for at in range(0, len(raw), width):
        found += stream.feed(raw[at : at + width], 0.0)
    assert ids(found) == ["t0", "t1", "t2", "t3"]
    assert stream.is_over
    stream.end()


def test_random_cuts_change_nothing(rng):
    for _ in range(200):
        raw = b"".join(
            chunk(line_of(check_of(f"t{number}", pad="x" * rng.randrange(50))))
            for number in range(3)
        )
        stream = opened()
        found = []
        while raw:
            length = rng.randrange(1, 200)
            found += stream.feed(raw[:length], 0.0)
            raw = raw[length:]
        assert ids(found) == ["t0", "t1", "t2"]


def test_chunk_extensions_and_trailers_are_passed_over():
    stream = opened()
    text = line_of(check_of("t1"))
    raw = b"%X;a=b \r\n%b\r\n0\r\nX-End: yes\r\n\r\n" % (len(text), text)
    assert ids(stream.feed(raw, 0.0)) == ["t1"]
    assert stream.is_over


def test_a_check_before_garbage_is_not_lost_with_it():
    stream = opened()
    found = stream.feed(chunk(line_of(check_of("t1"))) + b"zz\r\n", 0.0)
    assert next(found).transaction_id == "t1"
    with pytest.raises(ProtocolError, match="chunk size"):
        next(found)


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nbad line\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a" * (256 * 1024),
        HEAD + b"-1\r\n",
        HEAD + b"123456789\r\n",
        HEAD + b"3\r\nabcd\r\n",
        HEAD + b"1" * 2000,
        HEAD + b"0\r\n" + b"x" * 2000,
    ],
)
def test_what_is_no_stream_of_chunks_is_refused(raw):
    with pytest.raises(ProtocolError):
        list(CheckStream("orders", 0.0).feed(raw, 0.0))


@pytest.mark.parametrize("width", [1, 1000])
def test_another_answer_is_handed_on_whole(width):
    raw = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 X\r\nContent-Length: 2\r\n\r\n{}"
    stream = CheckStream("orders", 0.0)
    for at in range(0, len(raw) - width, width):
        assert list(stream.feed(raw[at : at + width], 0.0)) == []
    with pytest.raises(StreamRefused) as raised:
        list(stream.feed(raw[(len(raw) - 1) // width * width :], 0.0))
    assert raised.value.response.status == 503
    assert raised.value.response.body == b"{}"


def test_an_answer_without_a_length_ends_with_the_connection():
    stream = CheckStream("orders", 0.0)
    assert list(stream.feed(b"HTTP/1.1 502 X\r\n\r\nbad gateway", 0.0)) == []
    with pytest.raises(StreamRefused):
        stream.end()


@pytest.mark.parametrize("raw", [b"", b"HTTP", HEAD, HEAD + b"5\r\nab", HEAD + chunk(b'{"typ')])
def test_a_cut_stream_is_lost(raw):
    stream = CheckStream("orders", 0.0)
    assert list(stream.feed(raw, 0.0)) == []
    with pytest.raises(StreamLost):
        stream.end()


# -- bad lines

BAD_CHECKS = {
    "another group": {"producer_group": "others"},
    "no group": {"producer_group": None},
    "no id": {"transaction_id": ""},
    "an id that is no text": {"transaction_id": 7},
    "no handle": {"handle": None},
    "no number": {"check_number": None},
    "a number that is text": {"check_number": "1"},
    "a number that is a bool": {"check_number": True},
    "no maximum": {"check_max": 1.5},
    "an age that is text": {"age_ms": "6"},
    "an endless age": {"age_ms": float("inf")},
    "an age that is no number": {"age_ms": float("nan")},
    "an age beyond numbers": {"age_ms": 10**400},
    "no messages": {"messages": []},
    "messages that are an object": {"messages": {"topic": "t"}},
    "a message that is text": {"messages": ["t"]},
    "no topic": {"messages": [{"value": "v"}]},
    "a value that is a number": {"messages": [{"topic": "t", "value": 1}]},
    "broken base64": {"messages": [{"topic": "t", "value_base64": "a"}]},
    "base64 with strangers": {"messages": [{"topic": "t", "key_base64": "QU!J"}]},
    "base64 that is no ASCII": {"messages": [{"topic": "t", "key_base64": "é"}]},
    "half a character": {"messages": [{"topic": "t", "key": "\ud800"}]},
    "headers as an object": {"messages": [{"topic": "t", "headers": {"a": "b"}}]},
    "a header that is text": {"messages": [{"topic": "t", "headers": ["ab"]}]},
    "a header of three": {"messages": [{"topic": "t", "headers": [["a", "b", "c"]]}]},
    "a header without a name": {"messages": [{"topic": "t", "headers": [[None, "b"]]}]},
    "a header of another form": {"messages": [{"topic": "t", "headers": [["a", {"x": "b"}]]}]},
    "a partition that is text": {"messages": [{"topic": "t", "partition": "1"}]},
}
BAD_LINES = [
    b"\n",
    b"nonsense\n",
    b"\xff\xfe\n",
    b"null\n",
    b"7\n",
    b'"check"\n',
    b"[]\n",
    b"{}\n",
    b'{"type":7}\n',
    b'{"type":"check"}\n',
    b'{"type":"check"\n',
    b"[" * 100_000 + b"\n",
    b"9" * 10_000 + b"\n",
]


@pytest.mark.parametrize("name", BAD_CHECKS)
def test_a_check_that_is_not_understood_is_ignored_and_logged(name, caplog):
    bad = line_of(check_of("bad") | BAD_CHECKS[name])
    with caplog.at_level(logging.WARNING, LOGGER):
        assert ids(fed(bad, line_of(check_of("good")))) == ["good"]
    assert [record.action for record in caplog.records] == ["check_ignored"]


@pytest.mark.parametrize("bad", BAD_LINES, ids=lambda bad: repr(bad[:16]))
def test_a_line_that_is_no_json_object_is_ignored_and_logged(bad, caplog):
    with caplog.at_level(logging.WARNING, LOGGER):
        assert ids(fed(bad, line_of(check_of("good")))) == ["good"]
    assert [record.action for record in caplog.records] == ["check_ignored"]
    assert len(caplog.text) < 2000


def test_a_stream_of_garbage_is_told_once_and_is_no_good_stream(caplog):
    stream = opened()
    with caplog.at_level(logging.WARNING, LOGGER):
        assert fed(*[b"nonsense\n"] * 1000, stream=stream) == []
    assert len(caplog.records) == 1
    assert not stream.is_good


def test_a_line_of_a_later_version_is_passed_over(caplog):
    stream = opened()
    with caplog.at_level(logging.WARNING, LOGGER):
        assert fed(b'{"type":"news","x":1}\n', HEARTBEAT, stream=stream) == []
    assert caplog.records == []
    assert stream.is_good


@given(st.binary(max_size=200))
def test_no_line_can_raise(line):
    stream = opened()
    fed(line.replace(b"\n", b"") + b"\n", stream=stream)
    assert ids(fed(line_of(check_of("good")), stream=stream)) == ["good"]


@pytest.mark.parametrize("ends", [True, False])
def test_a_line_beyond_the_bound_ends_the_stream(ends, monkeypatch, caplog):
    monkeypatch.setattr(checks, "LINE_BYTES_MAX", 1000)
    stream = opened()
    assert fed(b"x" * 1000, stream=stream) == []
    with pytest.raises(StreamLost, match="1000 bytes"):
        fed(b"x\n" if ends else b"x", stream=stream)
    assert [record.action for record in caplog.records] == ["check_line_too_long"]


def test_the_bound_of_a_line_is_16_mib_and_such_a_line_is_read():
    assert checks.LINE_BYTES_MAX == 16 * 1024 * 1024
    message = {"topic": "t", "value": "x" * (15 * 1024 * 1024)}
    (check,) = fed(line_of(check_of("t1", messages=[message])))
    assert len(check.messages[0].value) == 15 * 1024 * 1024


# -- silence and heartbeats


def test_silence_is_the_end_and_anything_that_comes_is_none():
    stream = opened(0.0)
    stream.look_at_clock(9.9)
    list(stream.feed(b"5\r\n", 9.9))  # a slow line
    stream.look_at_clock(19.8)
    stream.look_at_clock(19.95)
    assert stream.wait_s(19.95) > 0, "it is listened for once more"
    with pytest.raises(StreamLost, match="10 s"):
        stream.look_at_clock(20.05)


def test_what_came_while_this_process_was_held_up_is_no_silence():
    stream = opened(0.0)
    stream.look_at_clock(60.0)
    list(stream.feed(chunk(HEARTBEAT), 60.0))
    assert stream.wait_s(60.0) <= 3.0
    stream.look_at_clock(69.0)


def test_not_reading_is_no_silence_of_the_other_side():
    stream = opened(0.0)
    stream.listened_again(60.0)
    stream.look_at_clock(69.0)
    stream.look_at_clock(70.0)
    with pytest.raises(StreamLost):
        stream.look_at_clock(70.1)


def test_a_heartbeat_is_due_every_three_seconds_whatever_comes():
    stream = opened(0.0)
    beats = []
    now_s = 0.0
    while now_s < 30:
        list(stream.feed(chunk(HEARTBEAT), now_s))
        if stream.beat_is_due(now_s):
            beats.append(now_s)
        now_s += 0.5
    assert beats == [3.0 * number for number in range(1, 10)]


def test_the_wait_ends_with_what_comes_first():
    stream = opened(100.0)
    assert stream.wait_s(100.0) == 3.0
    assert stream.wait_s(101.0) == 2.0
    assert stream.beat_is_due(109.0)
    assert stream.wait_s(109.0) == 1.0


# -- pauses


def lifeline(jitter=lambda: 1.0):
    return Lifeline("http://x", "orders", jitter)


def good_stream():
    stream = opened()
    fed(HEARTBEAT, stream=stream)
    return stream


def test_pauses_grow_to_a_bound_and_a_stream_that_lasted_ends_that():
    life = lifeline()
    pauses = [life.pause_s("gone", None, 0.0, None) for _ in range(9)]
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert life.pause_s("the sidecar ended it", good_stream(), 60.0, None) == 0.05


def test_streams_that_end_at_once_are_not_opened_in_a_hurry():
    life = lifeline()
    pauses = [life.pause_s("the sidecar ended it", good_stream(), 0.1, None) for _ in range(20)]
    assert pauses[-1] == 5.0
    life = lifeline()
    pauses = [life.pause_s("nothing came", opened(), 10.0, None) for _ in range(20)]
    assert pauses[-1] == 5.0, "a stream on which nothing ever came is no good one"


def test_pauses_are_jittered(rng):
    life = lifeline(rng.random)
    pauses = [life.pause_s("gone", None, 0.0, None) for _ in range(50)]
    assert len(set(pauses)) == 50
    assert all(2.5 <= pause <= 5.0 for pause in pauses[10:])


def refused(status, code="x", **headers):
    body = json.dumps({"error": {"code": code, "message": "told to"}}).encode()
    return Response(status, headers, body, reusable=False)


def test_a_refusal_that_says_when_to_come_again_is_obeyed_within_reason():
    asked = refused(503, "shutting_down", **{"retry-after": "7"})
    assert lifeline(lambda: 0.0).pause_s("", opened(), 0.0, asked) == 7.025
    asked = refused(503, "shutting_down", **{"retry-after": "99999"})
    assert lifeline().pause_s("", opened(), 0.0, asked) < 62


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_request_that_is_wrong_is_not_repeated_in_a_hurry_and_told_at_once(status, caplog):
    life = lifeline()
    assert life.pause_s("", opened(), 0.0, refused(status)) == checks.REFUSED_PAUSE_S
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "told to" in caplog.text


def test_a_restart_is_not_worth_a_warning_and_a_long_absence_is_worth_one(caplog):
    life = lifeline()
    with caplog.at_level(logging.INFO, LOGGER):
        life.pause_s("gone", None, 0.0, None)
        life.pause_s("gone", None, 0.0, None)
        assert caplog.records == []
        for _ in range(20):
            life.pause_s("gone", None, 0.0, None)
        assert [record.action for record in caplog.records] == ["check_stream_failed"]
        life.recovered()
        life.recovered()
        assert [record.action for record in caplog.records][1:] == ["check_stream_recovered"]


def test_a_stream_is_good_once_its_first_line_has_come():
    told = []
    stream = CheckStream("orders", 0.0, lambda: told.append("good"))
    list(stream.feed(HEAD, 0.0))
    assert told == []
    fed(b"nonsense\n", HEARTBEAT, HEARTBEAT, line_of(check_of("t1")), stream=stream)
    assert told == ["good"]


# -- what was said


@pytest.mark.parametrize("told", [None, "COMMIT", True, 1, object(), LocalTransactionState])
def test_only_a_state_is_a_decision(told, caplog):
    (check,) = fed(line_of(check_of("t1")))
    state, reason = checks.answer_of(check, told)
    assert state is LocalTransactionState.UNKNOWN
    assert reason.startswith("TypeError: a check must return a LocalTransactionState, not ")
    assert [record.action for record in caplog.records] == ["check_failed"]


def test_why_a_function_that_never_raises_says_unknown_is_told_once():
    (check,) = fed(line_of(check_of("t1")))
    why.note(OSError("the database is away"))
    told = checks.answer_of(check, LocalTransactionState.UNKNOWN)
    assert told == (LocalTransactionState.UNKNOWN, "OSError: the database is away")
    assert checks.answer_of(check, LocalTransactionState.UNKNOWN).reason is None
    why.note(OSError("the first try"))
    assert checks.answer_of(check, LocalTransactionState.COMMIT).reason is None
    assert checks.answer_of(check, LocalTransactionState.UNKNOWN).reason is None


@pytest.mark.parametrize("state", LocalTransactionState)
def test_a_state_is_what_it_says(state, caplog):
    (check,) = fed(line_of(check_of("t1")))
    assert checks.answer_of(check, state) == (state, None)
    assert caplog.records == []


def test_an_answered_check_left_no_line_in_the_log(caplog):
    caplog.set_level(logging.INFO, logger=LOGGER)
    (check,) = fed(line_of(check_of("t1", check_number=2)))
    why.note_grounds("the barrier has the row")
    checks.answer_of(check, LocalTransactionState.COMMIT)
    checks.answer_of(check, LocalTransactionState.ROLLBACK)  # of a function without grounds
    why.note(OSError("the database is away"))
    why.note_grounds("of nobody, for it cannot say")
    checks.answer_of(check, LocalTransactionState.UNKNOWN)
    head = f"asked about t1 (check 2 of {check.number_max}): "
    assert [record.getMessage() for record in caplog.records] == [
        head + "COMMIT, the barrier has the row",
        head + "ROLLBACK",
        head + "UNKNOWN, OSError: the database is away",
    ]
    assert {record.action for record in caplog.records} == {"check_answered"}
    assert {record.transaction_id for record in caplog.records} == {"t1"}


def test_what_a_block_of_the_application_has_noted_is_not_a_checks(caplog):
    caplog.set_level(logging.INFO, logger=LOGGER)
    (check,) = fed(line_of(check_of("t1")))
    why.note(OSError("of a block"))
    why.note_grounds("of a block")
    checks.forget_earlier()
    assert checks.answer_of(check, LocalTransactionState.UNKNOWN).reason is None
    assert "of a block" not in caplog.text
