"""Ports: free when taken, ours while held, and open to the server they are held for."""

from __future__ import annotations

import socket
import sys

import pytest

from halfhitch.embedded import EmbeddedError
from halfhitch.embedded.ports import HeldPorts

only_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere ports are seen free, not held"
)


@pytest.fixture
def ports():
    held = HeldPorts()
    yield held
    held.close()


@only_linux
def test_a_held_port_is_refused_to_strangers(ports):
    port = ports.take()
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind(("127.0.0.1", port))


@only_linux
def test_a_server_may_come_go_and_come_again_on_a_held_port(ports):
    port = ports.take()
    for _ in range(2):
        with (
            socket.create_server(("127.0.0.1", port)) as server,
            socket.create_connection(("127.0.0.1", port), 5) as client,
        ):
            accepted, _ = server.accept()
            accepted.sendall(b"served")
            assert client.recv(10) == b"served"
            accepted.close()


def test_ports_taken_together_differ(ports):
    assert len({ports.take() for _ in range(50)}) == 50


def test_a_port_that_somebody_listens_on_cannot_be_held(ports):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(EmbeddedError, match=f"port {port} on 127.0.0.1 cannot be had"):
            ports.hold(port)
    assert ports.hold(port) == port


def test_closing_gives_every_port_back(ports):
    port = ports.take()
    ports.close()
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", port))
