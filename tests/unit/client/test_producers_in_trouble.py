"""What both producers do when the sidecar or the way to it misbehaves.

Each test runs over TCP and over a unix socket.
"""

import socket
import threading
import time

import pytest

from halfhitch import errors
from halfhitch.client import (
    BadAnswer,
    Message,
    PrepareUnknown,
    ProducerClosed,
    SidecarUnavailable,
)
from halfhitch.client.address import parse_address
from halfhitch.client.calls import Calls
from harness.producers import driven
from harness.scripted_http import (
    CUT_AFTER,
    CUT_BEFORE,
    HANG,
    Answer,
    Bytes,
    like_the_door,
    refusal,
)

BUSY = refusal(503, "kafka_unavailable", retry_after="0")


# -- retries


@pytest.mark.parametrize(
    "trouble",
    [
        CUT_BEFORE,
        CUT_AFTER,
        BUSY,
        refusal(429, "overloaded", retry_after="0"),
        refusal(503, "outcome_unknown"),
        Answer(502),
        Bytes(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\nhalf of"),
        Bytes(b"HTTP/1.1 201 Cre"),
        Bytes(b"SSH-2.0-OpenSSH_9.6\r\n"),
        Bytes(b"\x16\x03\x01\x02\x00\x01"),
    ],
    ids=repr,
)
def test_a_call_outlives_trouble_and_repeats_itself_byte_by_byte(given, trouble):
    world = given(trouble, trouble)
    prepared = world.producer.prepare([Message("orders", b"one")])
    world.server.then(trouble)
    world.producer.commit(prepared.handle)
    world.server.then(trouble)
    world.producer.add(prepared.handle, [Message("orders", b"two")])
    by_target = {}
    for request in world.server.requests:
        by_target.setdefault(request.target, []).append((request.head, request.body))
    assert len(by_target) == 3
    for repeated in by_target.values():
        assert len(repeated) >= (1 if trouble is CUT_BEFORE else 2)
        assert len(set(repeated)) == 1, "a repetition differs from the first try"


def test_the_id_is_chosen_before_the_first_try_and_kept(given):
    world = given(CUT_AFTER, BUSY, CUT_AFTER)
    prepared = world.producer.prepare([Message("orders", b"one")])
    ids = [request.header("Half-Transaction-Id") for request in world.server.requests]
    assert ids == [prepared.transaction_id] * 4
    again = world.producer.prepare([Message("orders", b"one")])
    assert again.transaction_id != prepared.transaction_id


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 413, 415])
def test_a_refusal_is_final(given, status):
    world = given(refusal(status, "some_code", "what and what next"))
    with pytest.raises(errors.RequestError, match="what and what next"):
        world.producer.prepare([Message("orders", b"one")])
    assert len(world.server.requests) == 1


def test_a_hanging_try_leaves_time_for_another(given):
    world = given(HANG, deadline_s=4.0)
    assert world.producer.prepare([Message("orders", b"one")]).handle == "h1"
    assert [request.connection for request in world.server.requests] == [1, 2]


def test_calls_end_by_their_deadline(given):
    world = given(deadline_s=0.5, otherwise=lambda _: HANG)
    began_at = time.monotonic()
    with pytest.raises(PrepareUnknown, match="did not answer in time"):
        world.producer.prepare([Message("orders", b"one")])
    assert 0.4 < time.monotonic() - began_at < 30


def test_an_answer_that_trickles_in_is_whole(given):
    world = given(Answer(201, {"transaction_id": "t", "handle": "h9"}, byte_by_byte=True))
    assert world.producer.prepare([Message("orders", b"one")] * 2) == ("t", "h9")


def test_a_chunked_answer_is_understood(given):
    body = b'{"transaction_id":"t","state":"committed"}'
    world = given(
        Bytes(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
            % (len(body), body),
            keep=True,
        )
    )
    assert world.producer.commit("h").state == "committed"
    world.producer.commit("h")
    assert world.server.connection_count == 1


def test_a_success_that_is_none_is_a_bad_answer(given):
    world = given(Answer(200, b"<html>welcome</html>"))
    with pytest.raises(BadAnswer, match="data door"):
        world.producer.commit("h")


def test_a_missing_sidecar_is_told_with_its_address_and_what_to_do(shell, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for address in (f"http://127.0.0.1:{port}", f"unix:{tmp_path}/s", f"unix:{tmp_path}"):
        with driven(shell, "orders", address, deadline_s=0.2) as producer:
            with pytest.raises(SidecarUnavailable, match="halfhitch dev") as raised:
                producer.prepare([Message("orders", b"one")])
            assert raised.value.address == address
            assert address in str(raised.value)
            with pytest.raises(SidecarUnavailable):
                producer.view("h")


def test_a_host_that_does_not_exist_is_told(shell):
    address = "http://no-such-host.invalid:1"
    with (
        driven(shell, "orders", address, deadline_s=0.2) as producer,
        pytest.raises(SidecarUnavailable, match="no-such-host"),
    ):
        producer.commit("h")


# -- connections


def test_connections_are_kept(given):
    world = given()
    for _ in range(20):
        world.producer.commit(world.producer.prepare([Message("orders", b"one")]).handle)
    assert world.server.connection_count == 1


def test_a_connection_ends_when_the_server_says_so(given):
    world = given(otherwise=lambda request: closing(like_the_door(request)))
    for _ in range(3):
        world.producer.commit("h")
    assert world.server.connection_count == 3
    assert len(world.server.requests) == 3


def test_a_restart_of_the_sidecar_costs_one_try_however_many_connections_were_kept(given):
    gate = threading.Barrier(5)

    def together(request):
        gate.wait(10)
        return like_the_door(request)

    world = given(otherwise=together)
    threads = [threading.Thread(target=world.producer.commit, args=("h",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    gate.wait(10)
    for thread in threads:
        thread.join(10)
    assert world.server.connection_count == 4
    world.server.cut_connections()
    world.server.then(Answer(200, {"transaction_id": "t", "state": "committed"}))
    world.producer.commit("h")
    assert world.server.connection_count == 5


def test_what_nobody_asked_for_is_never_taken_for_an_answer(given):
    stray = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    good = Answer(201, headers={"Half-Handle": "h1", "Half-Transaction-Id": "t"}).render()
    world = given(Bytes(good + stray, keep=True))
    world.producer.prepare([Message("orders", b"one")])
    assert world.producer.commit("h").state == "committed"
    assert world.server.connection_count == 2


def test_more_callers_than_connections_wait_their_turn(given):
    gate = threading.Event()

    def slow(request):
        gate.wait(10)
        return like_the_door(request)

    world = given(connections_max=2, otherwise=slow)
    threads = [
        threading.Thread(target=world.producer.prepare, args=([Message("t", b"v")],))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    world.server.until_received(2)
    gate.set()
    for thread in threads:
        thread.join(10)
    assert len(world.server.requests) == 8
    assert world.server.connection_count == 2


def test_a_full_pool_is_told_as_such(given):
    gate = threading.Event()

    def slow(request):
        gate.wait(10)
        return like_the_door(request)

    world = given(connections_max=1, deadline_s=60, otherwise=slow)
    holder = threading.Thread(target=world.producer.commit, args=("h",))
    holder.start()
    world.server.until_received(1)
    call = Calls(parse_address(world.server.address), "orders", None).view("h")
    with pytest.raises(errors.Overloaded, match="connections_max"):
        world.producer.perform(call, 0.1)
    gate.set()
    holder.join(10)
    assert world.producer.perform(call).state == "pending"


def test_a_closed_producer_refuses_and_may_be_closed_again(given):
    world = given()
    world.producer.commit("h")
    world.producer.close()
    world.producer.close()
    with pytest.raises(ProducerClosed):
        world.producer.commit("h")


def test_closing_lets_calls_under_way_finish(given):
    gate = threading.Event()

    def slow(request):
        gate.wait(10)
        return like_the_door(request)

    world = given(otherwise=slow)
    results = []
    caller = threading.Thread(target=lambda: results.append(world.producer.commit("h")))
    caller.start()
    world.server.until_received(1)
    closer = threading.Thread(target=world.producer.close)
    closer.start()
    gate.set()
    caller.join(10)
    closer.join(10)
    assert [ended.state for ended in results] == ["committed"]


@pytest.mark.parametrize("manners", ["listens on", "hangs up"])
def test_a_refusal_of_a_large_body_is_told_although_it_was_not_all_sent(shell, manners, tmp_path):
    def refuse(listener):
        connection, _ = listener.accept()
        with connection:
            connection.recv(1024)
            body = b'{"error":{"code":"message_too_large","message":"too large"}}'
            head = b"HTTP/1.1 413 X\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
            connection.sendall(head % len(body) + body)
            if manners == "listens on":
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 20):
                    pass

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        thread = threading.Thread(target=refuse, args=(listener,))
        thread.start()
        with (
            driven(shell, "orders", f"unix:{tmp_path}/s", deadline_s=3) as producer,
            pytest.raises(errors.MessageTooLarge),
        ):
            producer.prepare([Message("orders", b"x" * 30_000_000)])
        thread.join(10)


def closing(answer):
    return Answer(answer.status, answer.body, answer.headers, close=True)
