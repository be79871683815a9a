import base64
import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfhitch import errors
from halfhitch.client.address import parse_address
from halfhitch.client.calls import Calls, Operation, error_of, new_transaction_id, says_its_state
from halfhitch.client.errors import BadAnswer
from halfhitch.client.protocol import Response
from halfhitch.client.values import LocalTransactionState, Message

ADDRESS = parse_address("http://127.0.0.1:8340")
CALLS = Calls(ADDRESS, "orders", None)


def split(request):
    """Request line, headers by name, body."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert len(headers) == len(lines), "a header twice"
    assert int(headers.get("Content-Length", 0)) == len(body)
    return first, headers, body


def prepared(*messages, calls=CALLS, transaction_id="t1", immunity_s=None):
    return split(calls.prepare(messages, transaction_id, immunity_s).request)


def only_message(body):
    (message,) = json.loads(body)["messages"]
    return message


def answer(status=200, body=None, **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, named, content, reusable=True)


# -- requests


def test_one_plain_message_takes_the_raw_route():
    message = Message("orders", b"\x00\xff\r\n", b"k 1", {"trace-id": "abc", "b": b"1"}, 3)
    first, headers, body = prepared(message, immunity_s=30)
    assert first == "POST /v1/topics/orders/half HTTP/1.1"
    assert headers == {
        "Host": "127.0.0.1:8340",
        "Half-Producer-Group": "orders",
        "Half-Transaction-Id": "t1",
        "Half-Immunity-Seconds": "30",
        "Half-Partition": "3",
        "Half-Key": "k 1",
        "Half-Header-trace-id": "abc",
        "Half-Header-b": "1",
        "Content-Type": "application/octet-stream",
        "Content-Length": "4",
    }
    assert body == b"\x00\xff\r\n"


def test_an_empty_value_takes_the_raw_route_too_and_text_is_utf_8():
    assert prepared(Message("t", b""))[2] == b""
    first, headers, body = prepared(Message("t", "é", "k"))
    assert (first, headers["Half-Key"], body) == (
        "POST /v1/topics/t/half HTTP/1.1",
        "k",
        "é".encode(),
    )


@pytest.mark.parametrize("key", [b"", b" a", b"a ", b"\xff\x00", b"a\r\nHalf-Token: x", "é"])
def test_a_key_that_no_header_carries_is_in_base64(key):
    _, headers, _ = prepared(Message("t", b"v", key))
    assert "Half-Key" not in headers
    raw = key.encode() if isinstance(key, str) else key
    assert base64.b64decode(headers["Half-Key-Base64"]) == raw


@pytest.mark.parametrize(
    "headers",
    [
        [("name", None)],
        [("name", b"")],
        [("name", b" a")],
        [("name", b"a\r\nHalf-Token: x")],
        [("name", b"a\0")],
        [("name", "é")],
        [("", b"a")],
        [("na me", b"a")],
        [("na:me", b"a")],
        [("näme", b"a")],
        [("Name", b"a")],
        [("name", b"1"), ("other", b"2"), ("name", b"3")],
        [(f"name-{number}", b"a") for number in range(65)],
        [("name", b"a" * 9000)],
    ],
)
def test_headers_that_http_would_change_take_the_json_route(headers):
    first, _, body = prepared(Message("t", b"v", b"k", headers))
    assert first == "POST /v1/transactions HTTP/1.1"
    sent = only_message(body)
    expected = [
        (name, value.encode() if isinstance(value, str) else value) for name, value in headers
    ]
    assert expected == [
        (name, None if value is None else base64.b64decode(value["base64"]))
        for name, value in sent["headers"]
    ]
    assert (sent["topic"], base64.b64decode(sent["value_base64"])) == ("t", b"v")
    assert base64.b64decode(sent["key_base64"]) == b"k"


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "a b", "a%2Fb", "tö", "a\r\nb", "a?b"])
def test_a_topic_that_no_path_carries_is_left_to_the_door_to_refuse(topic):
    first, _, body = prepared(Message(topic, b"v"))
    assert first == "POST /v1/transactions HTTP/1.1"
    assert only_message(body)["topic"] == topic


def test_a_tombstone_takes_the_json_route():
    assert only_message(prepared(Message("t", None, b"k"))[2])["value"] is None


def test_several_messages_take_the_json_route():
    first, headers, body = prepared(
        Message("a", b"1", partition=2), Message("b", b""), immunity_s=5
    )
    assert first == "POST /v1/transactions HTTP/1.1"
    assert headers["Content-Type"] == "application/json"
    assert json.loads(body) == {
        "producer_group": "orders",
        "transaction_id": "t1",
        "immunity_seconds": 5,
        "messages": [
            {"topic": "a", "value_base64": "MQ==", "partition": 2},
            {"topic": "b", "value_base64": ""},
        ],
    }


@pytest.mark.parametrize("strange", ["grüppe", " g", "a\r\nb"])
def test_a_group_or_id_that_no_header_carries_travels_in_json_only(strange):
    calls = Calls(ADDRESS, strange, None)
    first, _, body = prepared(Message("t", b"v"), calls=calls)
    assert first == "POST /v1/transactions HTTP/1.1"
    assert json.loads(body)["producer_group"] == strange
    assert "Half-Producer-Group" not in split(calls.end(Operation.COMMIT, "h").request)[1]
    first, _, body = prepared(Message("t", b"v"), transaction_id=strange)
    assert first == "POST /v1/transactions HTTP/1.1"
    assert json.loads(body)["transaction_id"] == strange


@pytest.mark.parametrize(
    ("state", "path"),
    [
        (LocalTransactionState.COMMIT, "commit?source=check"),
        (LocalTransactionState.ROLLBACK, "rollback?source=check"),
        (LocalTransactionState.UNKNOWN, "unknown"),
    ],
)
def test_the_answer_to_a_check_says_that_it_is_one(state, path):
    call = Calls(ADDRESS, "orders", "s3cret").answer_check(state, "h.1", "t1")
    first, headers, body = split(call.request)
    assert first == f"POST /v1/transactions/h.1/{path} HTTP/1.1"
    assert headers == {
        "Host": "127.0.0.1:8340",
        "Half-Token": "s3cret",
        "Half-Producer-Group": "orders",
        "Content-Length": "0",
    }
    assert body == b""
    assert (call.transaction_id, call.handle) == ("t1", "h.1")


def test_the_stream_of_checks_is_asked_for_with_what_no_path_carries_encoded():
    calls = Calls(ADDRESS, "a b+é", "s3cret")
    first, headers, body = split(calls.checks("x" * 98 + "é-17", 3, 64))
    assert first == "GET /v1/checks?producer_group=a%20b%2B%C3%A9 HTTP/1.1"
    assert headers == {
        "Host": "127.0.0.1:8340",
        "Half-Token": "s3cret",
        "Half-Heartbeat": "3",
        "Half-Producer-Name": "x" * 91 + "%C3%A9-17",
        "Half-Checks-At-Once": "64",
    }
    assert body == b""


@given(
    st.binary(max_size=20),
    st.none() | st.binary(max_size=20),
    st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3),
    st.text(max_size=10),
)
def test_no_message_can_break_out_of_its_place_in_the_request(value, key, headers, topic):
    first, names, body = prepared(Message(topic, value, key, headers))
    assert first.startswith("POST /v1/t")
    assert "Half-Token" not in names
    if "half" in first:
        assert body == value
        plain = names.get("Half-Key")
        coded = names.get("Half-Key-Base64")
        sent = base64.b64decode(coded) if coded is not None else plain and plain.encode()
        assert sent == key
        assert [
            (name.removeprefix("Half-Header-"), text.encode())
            for name, text in names.items()
            if name.startswith("Half-Header-")
        ] == headers
    else:
        assert base64.b64decode(only_message(body)["value_base64"]) == value


def test_ends_views_and_adds_name_the_handle():
    commit = CALLS.end(Operation.COMMIT, "h-_1", wait_visible=True)
    assert split(commit.request)[0] == "POST /v1/transactions/h-_1/commit?wait=visible HTTP/1.1"
    assert split(commit.request)[1]["Half-Producer-Group"] == "orders"
    rollback = split(CALLS.end(Operation.ROLLBACK, "h").request)
    assert (rollback[0], rollback[2]) == ("POST /v1/transactions/h/rollback HTTP/1.1", b"")
    assert rollback[1]["Content-Length"] == "0"
    view = split(CALLS.view("h").request)
    assert view[0] == "GET /v1/transactions/h HTTP/1.1"
    assert view[1] == {"Host": "127.0.0.1:8340"}
    add = split(CALLS.add("h", [Message("t", b"v")]).request)
    assert add[0] == "POST /v1/transactions/h/messages HTTP/1.1"
    assert json.loads(add[2]) == {"messages": [{"topic": "t", "value_base64": "dg=="}]}


@pytest.mark.parametrize("handle", ["", "a\r\nb", "a\0", "é", None, b"h"])
def test_what_cannot_be_a_handle_is_not_sent(handle):
    for call in (
        lambda: CALLS.end(Operation.COMMIT, handle),
        lambda: CALLS.view(handle),
        lambda: CALLS.add(handle, [Message("t", b"v")]),
    ):
        with pytest.raises(errors.InvalidHandle, match="exactly as prepare returned it"):
            call()


@pytest.mark.parametrize(
    ("handle", "path"), [("a/b?c d+%=", "a%2Fb%3Fc%20d%2B%25%3D"), ("A-_.~9", "A-_.~9")]
)
def test_a_handle_is_one_segment_of_the_path_whatever_it_looks_like(handle, path):
    line = split(CALLS.view(handle).request)[0]
    assert line == f"GET /v1/transactions/{path} HTTP/1.1"


def test_the_token_goes_with_every_request():
    calls = Calls(ADDRESS, "orders", "s3cret")
    requests = [
        calls.prepare([Message("t", b"v")], "t1", None),
        calls.prepare([Message("t", None)], "t1", None),
        calls.add("h", [Message("t", b"v")]),
        calls.end(Operation.COMMIT, "h"),
        calls.view("h"),
    ]
    assert {split(call.request)[1]["Half-Token"] for call in requests} == {"s3cret"}


@pytest.mark.parametrize("token", ["", "a\n", "a\r\nX: y", "ä", " a"])
def test_a_token_with_a_line_break_is_refused_and_not_shown(token):
    with pytest.raises(errors.ConfigurationError, match="printable ASCII") as raised:
        Calls(ADDRESS, "orders", token)
    assert not token.strip() or repr(token) not in str(raised.value)


@pytest.mark.parametrize("group", ["", None, 7])
def test_a_producer_without_a_group_is_refused(group):
    with pytest.raises(errors.ConfigurationError, match="group"):
        Calls(ADDRESS, group, None)


@pytest.mark.parametrize(
    ("message", "word"),
    [
        (Message("t", 7), "value"),
        (Message("t", {"a": 1}), "value"),
        (Message("t", b"v", 7), "key"),
        (Message("t", b"v", None, {"n": 7}), "header 'n'"),
        (Message("t", b"v", None, None, "3"), "partition"),
        (Message("t", b"v", None, None, True), "partition"),
        (Message(b"t", None), "topic"),
        (Message(None, b"v"), "topic"),
    ],
)
def test_a_wrong_type_is_told_at_once(message, word):
    with pytest.raises(TypeError, match=word):
        CALLS.prepare([message], "t1", None)
    with pytest.raises(TypeError, match=word):
        CALLS.add("h", [message])


def test_bytes_like_values_are_taken():
    assert prepared(Message("t", bytearray(b"v")))[2] == b"v"
    assert prepared(Message("t", memoryview(b"v")))[2] == b"v"


def test_nothing_to_send_is_refused():
    with pytest.raises(errors.InvalidRequest, match="at least one"):
        CALLS.prepare([], "t1", None)


def test_a_chosen_id_is_a_random_uuid_of_version_4():
    ids = {new_transaction_id() for _ in range(1000)}
    assert len(ids) == 1000
    for text in ids:
        assert uuid.UUID(text).version == 4
        assert uuid.UUID(text).variant == uuid.RFC_4122
        assert uuid.UUID(text).hex == text


# -- answers


def test_a_prepare_is_read_from_headers_or_from_json():
    read = CALLS.prepare([Message("t", b"v")], "t1", None).read
    assert read(answer(201, b"", half_handle="h", half_transaction_id="t1")) == ("t1", "h")
    assert read(answer(201, {"transaction_id": "t1", "handle": "h"})) == ("t1", "h")


def test_an_end_and_a_view_are_read_from_json():
    read = CALLS.end(Operation.COMMIT, "h").read
    assert read(answer(body={"transaction_id": "t", "state": "committed"})) == (
        "t",
        "committed",
        False,
    )
    assert read(answer(body={"transaction_id": "t", "state": "committed", "visible": True})).visible
    body = {
        "transaction_id": "t",
        "producer_group": "g",
        "state": "pending",
        "message_count": 2,
        "visible": False,
        "check_count": 5,
    }
    view = CALLS.view("h").read(answer(body=body))
    assert view == ("t", "g", "pending", 2, False, body)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", [], None, {}, {"transaction_id": 1}, b"[" * 100_000]
)
def test_a_good_status_with_a_strange_body_is_a_bad_answer_not_a_success(body):
    for call in (
        CALLS.prepare([Message("t", b"v")], "t1", None),
        CALLS.end(Operation.COMMIT, "h"),
        CALLS.view("h"),
    ):
        with pytest.raises(BadAnswer, match="8340"):
            call.read(answer(body=body))
    with pytest.raises(BadAnswer):
        CALLS.prepare([Message("t", b"v")], "t1", None).read(answer(201, b"", half_handle="h"))


def refused(status, code, operation=Operation.PREPARE, **more):
    headers = {"retry_after": more.pop("retry_after")} if "retry_after" in more else {}
    body = {"error": {"code": code, "message": "what and what next", "retryable": False, **more}}
    return error_of(answer(status, body, **headers), "there", operation)


WIRE_ERRORS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type)
    and issubclass(kind, (errors.RequestError, errors.BackendError))
    and kind not in (errors.RequestError, errors.BackendError)
]


@pytest.mark.parametrize("kind", WIRE_ERRORS)
def test_every_error_comes_back_as_its_own_class(kind):
    status = 400 if issubclass(kind, errors.RequestError) else 503
    error = refused(status, kind.code)
    assert type(error) is kind
    assert error.message == "what and what next"


def test_a_contrary_decision_tells_both():
    error = refused(409, "contrary_decision", decided="rolled_back", requested="committed")
    assert (error.decided, error.requested) == ("rolled_back", "committed")
    error = refused(409, "contrary_decision", Operation.COMMIT)
    assert (error.decided, error.requested) == ("otherwise", "commit")


def test_an_unknown_code_is_judged_by_its_status_and_told():
    error = refused(403, "host_not_allowed")
    assert type(error) is errors.RequestError
    assert str(error) == "what and what next (host_not_allowed)"
    for status in (429, 500, 503):
        assert type(refused(status, "new_trouble")) is errors.BackendError
    assert type(refused(500, "internal_error")) is errors.BackendError
    assert type(refused(503, "too_many_connections")) is errors.Overloaded


@pytest.mark.parametrize("body", [b"", b"<html>", {"error": "no"}, {"error": {"code": 7}}, [1]])
def test_an_error_that_is_not_ours_is_judged_by_its_status(body):
    error = error_of(answer(404, body), "http://there:1", Operation.COMMIT)
    assert type(error) is errors.RequestError
    assert "http://there:1 answered 404" in str(error)
    assert type(error_of(answer(502, body), "there", Operation.COMMIT)) is errors.BackendError
    assert type(error_of(answer(429, body), "there", Operation.COMMIT)) is errors.BackendError
    assert type(error_of(answer(301, body), "there", Operation.COMMIT)) is BadAnswer


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3", 3), ("0", 0), ("", 0), ("-1", 0), ("1.5", 0), ("Wed, 21 Oct 2026", 0), ("9" * 9, 0)],
)
def test_retry_after_counts_in_seconds_only(text, seconds):
    assert refused(503, "kafka_unavailable", retry_after=text).retry_after_s == seconds


def test_only_own_errors_that_say_so_are_sure():
    assert says_its_state(refused(503, "kafka_unavailable"))
    assert says_its_state(refused(429, "overloaded"))
    assert says_its_state(refused(400, "invalid_handle"))
    assert not says_its_state(refused(503, "outcome_unknown"))
    assert not says_its_state(refused(503, "visibility_unknown"))
    assert not says_its_state(refused(500, "internal_error"))
    assert not says_its_state(error_of(answer(503, b""), "there", Operation.COMMIT))
