"""The file of a unix socket: replaced and removed only when it is nobody else's."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from halfhitch.doors.http.sockets import UnixListener
from halfhitch.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


def leave_stale(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


def test_the_file_is_for_owner_and_group_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "door.sock"
    before = os.umask(0)
    try:
        listener = UnixListener(str(path))
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o660
    listener.socket.close()


def test_a_file_nobody_listens_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "door.sock"
    leave_stale(path)
    listener = UnixListener(str(path))
    listener.socket.listen()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    listener.socket.close()


@pytest.mark.parametrize("backlog_is_full", [False, True])
def test_the_socket_of_a_living_listener_stays(tmp_path: Path, backlog_is_full: bool) -> None:
    path = tmp_path / "door.sock"
    with socket.socket(socket.AF_UNIX) as alive:
        alive.bind(str(path))
        alive.listen(0)
        waiting = []
        while backlog_is_full:
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            waiting.append(client)
            if client.connect_ex(str(path)) != 0:
                break
        with pytest.raises(ConfigurationError, match="Another process listens"):
            UnixListener(str(path))
        assert path.is_socket()
        for client in waiting:
            client.close()


def test_a_file_that_is_no_socket_stays(tmp_path: Path) -> None:
    path = tmp_path / "door.sock"
    path.write_text("precious")
    with pytest.raises(ConfigurationError, match="no socket"):
        UnixListener(str(path))
    assert path.read_text() == "precious"


@pytest.mark.parametrize("name", ["missing/door.sock", "x" * 120])
def test_a_place_that_cannot_be_bound_is_a_clear_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="Cannot listen on the unix socket"):
        UnixListener(str(tmp_path / name))


def test_on_the_way_out_the_file_of_a_successor_stays(tmp_path: Path) -> None:
    path = tmp_path / "door.sock"
    first = UnixListener(str(path))
    second = UnixListener(str(path))
    first.remove()
    first.socket.close()
    assert path.is_socket()
    second.remove()
    assert not path.exists()
    second.remove()  # a file that is gone already is no trouble
    second.socket.close()
