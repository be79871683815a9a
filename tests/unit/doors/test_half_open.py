"""Connections whose other end has gone without a word."""

import socket
import sys
from typing import Any

import pytest

from halfhitch.doors.half_open import notice_half_open


class Transport:
    def __init__(self, found: Any) -> None:
        self.found = found

    def get_extra_info(self, _: str) -> Any:
        return self.found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the option is Linux's")
def test_the_kernel_is_told_how_long_to_wait_in_milliseconds() -> None:
    with socket.socket(socket.AF_INET) as it:
        transport: Any = Transport(it)
        notice_half_open(transport, 7.5)
        assert it.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 7_500


def test_a_socket_of_the_machine_itself_one_that_is_gone_and_none_are_left_alone() -> None:
    here, there = socket.socketpair()
    closed = socket.socket(socket.AF_INET)
    closed.close()
    with here, there:
        for found in (here, closed, None):
            transport: Any = Transport(found)
            notice_half_open(transport, 1.0)
