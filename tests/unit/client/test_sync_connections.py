"""Places and connections of the blocking producer, when a signal's handler raises anywhere."""

import random
import signal
import threading
import time
import weakref
from contextlib import suppress

import pytest

from halfhitch.client import sync_connections, turns
from halfhitch.client.address import parse_address
from halfhitch.client.retries import TransportFailure
from harness.strikes import Struck, is_of_coverage, strikes

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Limits:
    """Of one call."""

    def __init__(self, left_s):
        self.ends_at_s = time.monotonic() + left_s

    def try_ends_at_s(self, now_s):
        return self.ends_at_s


class Socket:
    """Always answers."""

    is_open = True

    def settimeout(self, _):
        pass

    def sendall(self, _):
        pass

    def recv(self, *_):
        return ANSWER

    def close(self):
        self.is_open = False


class World:
    """A pool with one place, and its sockets."""

    def __init__(self):
        self._sockets = []
        self.pool = sync_connections.ConnectionPool(
            parse_address("http://127.0.0.1:9"), 1, time.monotonic
        )

    def connect(self, *_):
        made = Socket()
        self._sockets.append(weakref.ref(made))
        return made

    def open_count(self):
        found = [made() for made in self._sockets]
        return sum(made is not None and made.is_open for made in found)

    def exchange(self, left_s=10):
        return self.pool.exchange(b"request", Limits(left_s))


@pytest.fixture
def world(monkeypatch):
    world = World()
    monkeypatch.setattr(sync_connections, "connect", world.connect)
    return world


@pytest.mark.parametrize("is_kept", [True, False])
def test_an_exception_of_a_handler_lost_a_place_for_ever(world, is_kept):
    """Between the semaphore's acquire and its `try`, or in the `finally` before its release.

    With as many signals as places every later call waited for ever. `is_kept`: the connection.
    """
    for strike in strikes(sync_connections, turns):
        if not is_kept:
            world.pool._drop_idle()
        with strike:
            world.exchange()
        world.exchange(0.2)  # busy, if a place was lost
        assert world.open_count() == 1, strike.place


def test_an_exception_of_a_handler_while_a_call_waits_keeps_no_place(world):
    for strike in strikes(sync_connections, turns):
        with (
            world.pool._line.join(turns.Bell()),
            strike,
            pytest.raises(TransportFailure, match="all 1"),
        ):
            world.exchange(0.002)
        assert world.pool._line.is_free, strike.place


def test_an_exception_that_is_kept_keeps_no_place(world):
    """Its traceback has the frames, and what is in their variables."""
    kept = []
    for strike in strikes(sync_connections, is_real=True):
        try:
            with strike:
                try:
                    world.exchange()
                except Struck as struck:
                    kept.append(struck)
        finally:
            world.exchange(0.2)
    assert len(kept) > 10


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a `__del__`
def test_signals_whose_handler_raises_lose_no_place(world):
    """Real ones, at random: the older code lost the place within a second."""

    is_armed = False

    def strike(_, frame):
        nonlocal is_armed
        if is_of_coverage(frame):
            signal.setitimer(signal.ITIMER_REAL, 0.0001)  # a little later
        elif is_armed:  # once: the next one might come before the timer is stopped
            is_armed = False
            raise Struck

    before = signal.signal(signal.SIGALRM, strike)
    drawn = random.Random(7)
    try:
        for _ in range(300):
            is_armed = True
            with suppress(Struck):
                signal.setitimer(signal.ITIMER_REAL, drawn.uniform(0.00002, 0.002))
                late_s = time.monotonic() + 0.1
                while is_armed:  # a `__del__` may swallow it
                    world.exchange(5)
                    if time.monotonic() > late_s:
                        # A signal that struck the interpreter while it was looking whether there
                        # is one waits for the next occasion (CPython 3.11): seventeen minutes once.
                        signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    world.exchange(0.5)
    assert world.open_count() <= 1


def test_those_who_wait_get_their_turn_though_nobody_rang(world):
    """Whoever would have rung was interrupted just then."""
    joined = threading.Event()
    place = world.pool._line.join(turns.Bell())
    answers = []

    def wait():
        joined.set()
        answers.append(world.exchange(30).status)

    thread = threading.Thread(target=wait)
    thread.start()
    assert joined.wait(10)
    del place
    thread.join(20)
    assert answers == [200]


def test_turns_are_taken_in_the_order_of_coming_and_end_with_the_deadline(world):
    place = world.pool._line.join(turns.Bell())
    came = []

    def wait(number):
        world.exchange(30)
        came.append(number)

    threads = []
    for number in range(4):
        thread = threading.Thread(target=wait, args=(number,))
        thread.start()
        threads.append(thread)
        while len(world.pool._line._bells) < number + 2:
            time.sleep(0.001)
    with pytest.raises(TransportFailure, match="all 1 connections") as raised:
        world.exchange(0.01)
    assert raised.value.busy
    del place
    for thread in threads:
        thread.join(20)
    assert sorted(came) == [0, 1, 2, 3]
