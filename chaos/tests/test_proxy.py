"""The Kafka-aware proxy does what it says, and no more: shown with plain sockets, without Kafka."""

from __future__ import annotations

import socket
import struct
import threading
import time
from typing import TYPE_CHECKING

import pytest

from chaos.kit.proxy import ApiKey, Direction, KafkaProxy

if TYPE_CHECKING:
    from collections.abc import Iterator

DEADLINE_S = 5.0


def frame(api_key: int, correlation_id: int, body: bytes = b"") -> bytes:
    payload = struct.pack(">hhi", api_key, 1, correlation_id) + body
    return struct.pack(">i", len(payload)) + payload


def read_exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def read_answer(sock: socket.socket) -> tuple[int, bytes]:
    size = int.from_bytes(read_exactly(sock, 4))
    payload = read_exactly(sock, size)
    return int.from_bytes(payload[:4], signed=True), payload[4:]


class Broker:
    """Answers every request with what it said, and remembers all of them in order."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(DEADLINE_S)
        self.port: int = self._listener.getsockname()[1]
        self.requests: list[tuple[int, int, bytes]] = []
        self.partial = b""
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            data = b""
            while True:
                try:
                    more = sock.recv(65536)
                except OSError:
                    more = b""
                if not more:
                    self.partial = data
                    return
                data += more
                while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4]):
                    size = int.from_bytes(data[:4])
                    payload, data = data[4 : 4 + size], data[4 + size :]
                    api_key, _, correlation_id = struct.unpack_from(">hhi", payload)
                    self.requests.append((api_key, correlation_id, payload[8:]))
                    answer = struct.pack(">i", correlation_id) + payload[8:]
                    sock.sendall(struct.pack(">i", len(answer)) + answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in [self._accepting, *self._threads]:
            thread.join(DEADLINE_S)
            assert not thread.is_alive()


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.close()


@pytest.fixture
def proxy(broker: Broker) -> Iterator[KafkaProxy]:
    with KafkaProxy(0, broker.port) as made:
        yield made


@pytest.fixture
def client(proxy: KafkaProxy) -> Iterator[socket.socket]:
    with connect(proxy) as sock:
        yield sock


def connect(proxy: KafkaProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.listen_port), DEADLINE_S)


def is_reset(sock: socket.socket) -> bool:
    """Whether the next thing that this side hears is a reset."""
    try:
        assert sock.recv(65536), "it was closed in good order"
    except ConnectionResetError:
        return True
    return False


def is_turned_away(proxy: KafkaProxy) -> bool:
    try:
        with connect(proxy) as sock:
            return is_reset(sock)
    except ConnectionResetError:
        return True  # the reset was quicker than the client


def test_frames_pass_unchanged_and_are_counted_by_api_key(
    proxy: KafkaProxy, client: socket.socket
) -> None:
    big = bytes(range(256)) * 20_000
    client.sendall(frame(ApiKey.PRODUCE, 1, big) + frame(ApiKey.END_TXN, 2, b"x"))
    assert read_answer(client) == (1, big)
    assert read_answer(client) == (2, b"x")
    proxy.wait_passed(ApiKey.END_TXN, 1, DEADLINE_S, Direction.RESPONSE)
    counts = proxy.counts()
    expected = {ApiKey.PRODUCE: 1, ApiKey.END_TXN: 1}
    assert counts.requests_seen == counts.requests_passed == expected
    assert counts.responses_seen == counts.responses_passed == expected
    assert (counts.connections, counts.connections_open, counts.resets) == (1, 1, 0)


def test_a_held_request_holds_back_what_is_behind_it_until_it_is_released(
    proxy: KafkaProxy, broker: Broker, client: socket.socket
) -> None:
    held = proxy.hold(ApiKey.END_TXN)
    client.sendall(frame(0, 1) + frame(ApiKey.END_TXN, 2, b"first") + frame(0, 3))
    assert read_answer(client) == (1, b"")
    caught = held.wait_caught(DEADLINE_S)
    assert (caught.api_key, caught.correlation_id) == (ApiKey.END_TXN, 2)
    assert [key for key, _, _ in broker.requests] == [0]
    held.release()
    assert read_answer(client) == (2, b"first")
    assert read_answer(client) == (3, b"")
    assert held.wait_answered(DEADLINE_S).payload[4:] == b"first"
    assert proxy.counts().held == 1


def test_a_held_request_outlives_its_reset_connection_and_arrives_late(
    proxy: KafkaProxy, broker: Broker, client: socket.socket
) -> None:
    held = proxy.hold(ApiKey.END_TXN, reset_client=True)
    client.sendall(frame(ApiKey.END_TXN, 1, b"late"))
    held.wait_caught(DEADLINE_S)
    assert is_reset(client)
    with connect(proxy) as second:  # the rule has caught its one: the retry passes
        second.sendall(frame(ApiKey.END_TXN, 1, b"retry"))
        assert read_answer(second) == (1, b"retry")
        assert [body for _, _, body in broker.requests] == [b"retry"]
        held.release()
        assert held.wait_answered(DEADLINE_S).payload[4:] == b"late"
        assert [body for _, _, body in broker.requests] == [b"retry", b"late"]
    assert proxy.counts().resets == 1


def test_a_held_request_outlives_a_client_that_gives_up_by_itself(
    proxy: KafkaProxy, broker: Broker, client: socket.socket
) -> None:
    held = proxy.hold(ApiKey.END_TXN)
    client.sendall(frame(ApiKey.END_TXN, 1, b"late"))
    held.wait_caught(DEADLINE_S)
    client.close()
    proxy.wait_for(lambda: proxy.counts().connections_open == 0, DEADLINE_S, "the client leaves")
    held.release()
    held.wait_answered(DEADLINE_S)
    assert [body for _, _, body in broker.requests] == [b"late"]


def test_a_dropped_request_never_arrives(
    proxy: KafkaProxy, broker: Broker, client: socket.socket
) -> None:
    held = proxy.hold(ApiKey.END_TXN, where=lambda caught: caught.payload.endswith(b"this"))
    client.sendall(frame(ApiKey.END_TXN, 1, b"other") + frame(ApiKey.END_TXN, 2, b"this"))
    assert read_answer(client) == (1, b"other")
    held.wait_caught(DEADLINE_S)
    held.drop()
    with pytest.raises((EOFError, ConnectionResetError)):
        read_answer(client)
    assert [body for _, _, body in broker.requests] == [b"other"]
    assert proxy.counts().dropped == 1


def test_a_held_response_has_been_worked_on_and_may_be_lost(
    proxy: KafkaProxy, broker: Broker, client: socket.socket
) -> None:
    held = proxy.hold(ApiKey.END_TXN, Direction.RESPONSE, reset_client=True)
    client.sendall(frame(ApiKey.END_TXN, 1, b"done"))
    assert held.wait_caught(DEADLINE_S).payload[4:] == b"done"
    assert is_reset(client)
    assert [body for _, _, body in broker.requests] == [b"done"]
    held.release()


def test_waiting_for_a_frame_that_never_comes_fails_in_time(proxy: KafkaProxy) -> None:
    held = proxy.hold(ApiKey.END_TXN)
    with pytest.raises(TimeoutError, match="request 26"):
        held.wait_caught(0.01)


def test_a_delay_delays_and_does_not_lessen_the_throughput(
    proxy: KafkaProxy, client: socket.socket
) -> None:
    rule = proxy.delay(100, Direction.REQUEST, ApiKey.PRODUCE)
    began_s = time.monotonic()
    client.sendall(b"".join(frame(ApiKey.PRODUCE, n) for n in range(50)))
    assert [read_answer(client)[0] for _ in range(50)] == list(range(50))
    took_s = time.monotonic() - began_s
    assert 0.1 <= took_s < 4.0, "one after the other they would take five seconds"
    rule.remove()
    proxy.delay(60_000, api_key=ApiKey.FETCH)
    client.sendall(frame(ApiKey.PRODUCE, 51))
    assert read_answer(client)[0] == 51


@pytest.mark.parametrize("direction", Direction)
def test_a_stall_is_of_one_direction_and_ends_with_the_healing(
    proxy: KafkaProxy, broker: Broker, client: socket.socket, direction: Direction
) -> None:
    proxy.stall(direction)
    client.sendall(frame(0, 1))
    proxy.wait_for(lambda: proxy.counts().requests_seen[0] == 1, DEADLINE_S, "it is seen")
    if direction is Direction.RESPONSE:
        proxy.wait_for(lambda: proxy.counts().responses_seen[0] == 1, DEADLINE_S, "it is answered")
    counts = proxy.counts()
    assert (counts.requests_passed[0], counts.responses_passed[0]) == (
        int(direction is Direction.RESPONSE),
        0,
    )
    assert len(broker.requests) == counts.requests_passed[0]
    proxy.heal()
    assert read_answer(client) == (1, b"")


def test_a_cut_resets_every_connection_and_new_ones_work(
    proxy: KafkaProxy, client: socket.socket
) -> None:
    with connect(proxy) as other:
        for sock in (client, other):
            sock.sendall(frame(0, 1))
            assert read_answer(sock) == (1, b"")
        assert proxy.cut() == 2
        assert is_reset(client)
        assert is_reset(other)
    with connect(proxy) as fresh:
        fresh.sendall(frame(0, 2))
        assert read_answer(fresh) == (2, b"")
    assert proxy.counts().resets == 2


def test_a_cut_after_bytes_leaves_a_torn_frame(
    proxy: KafkaProxy, broker: Broker, client: socket.socket
) -> None:
    whole = frame(0, 1, b"whole")
    proxy.cut_after_bytes(len(whole) + 10)
    client.sendall(whole + frame(0, 2, b"torn apart"))
    while not is_reset(client):
        pass
    proxy.wait_for(lambda: len(broker.partial) > 0, DEADLINE_S, "the broker has the torn frame")
    assert [body for _, _, body in broker.requests] == [b"whole"]
    assert broker.partial == frame(0, 2, b"torn apart")[:10]


def test_refused_connections_are_reset_until_it_is_healed(proxy: KafkaProxy) -> None:
    proxy.refuse()
    assert is_turned_away(proxy)
    proxy.heal()
    with connect(proxy) as sock:
        sock.sendall(frame(0, 1))
        assert read_answer(sock) == (1, b"")


def test_a_broker_that_is_down_looks_so_from_outside() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with KafkaProxy(0, port) as proxy:
        assert is_turned_away(proxy)


def test_stopping_with_a_held_frame_and_twice_is_harmless(broker: Broker) -> None:
    proxy = KafkaProxy(0, broker.port).start()
    with connect(proxy) as sock:
        held = proxy.hold(ApiKey.END_TXN)
        sock.sendall(frame(ApiKey.END_TXN, 1))
        held.wait_caught(DEADLINE_S)
        proxy.stop()
        proxy.stop()
    assert broker.requests == []
