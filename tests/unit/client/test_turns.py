"""Places are given back by the end of an object, wherever the code that held one was left."""

import threading

from halfhitch.client import turns
from halfhitch.client.turns import Bell, Line, UnderWay, is_held_here
from harness.strikes import strikes


def test_the_first_are_admitted_in_the_order_of_coming():
    line = Line(2)
    names = ["a", "b", "c", "d"]
    places = {name: line.join(name) for name in names}
    assert [line.admits(name) for name in names] == [True, True, False, False]
    assert line.to_ring() == ["a", "b"]
    del places["b"]
    assert line.to_ring() == ["a", "c"]
    assert [line.admits(name) for name in ("a", "c", "d")] == [True, True, False]
    del places["d"]
    assert line.to_ring() == ["a", "c"]
    places.clear()
    assert (line.to_ring(), line.admits("new")) == ([], True)


def test_a_place_is_free_behind_its_block():
    line = Line(1)
    with line.join("a"):
        assert not line.is_free
    assert line.is_free


def test_no_step_of_joining_or_leaving_keeps_a_place():
    """An exception of a handler between a semaphore's acquire and the `try` behind it lost one."""
    line = Line(1)

    def work():
        with line.join("a"):
            assert line.admits("a")
        line.to_ring()

    for strike in strikes(turns):
        with strike:
            work()
        assert line.is_free, strike.place


def test_what_is_under_way_is_over_when_its_block_is_left():
    under_way = UnderWay()
    with under_way.begun():
        assert not under_way.is_over
        assert under_way.is_over_elsewhere  # who waited for it would wait for itself
        told = []
        thread = threading.Thread(target=lambda: told.append(under_way.is_over_elsewhere))
        thread.start()
        thread.join(10)
    assert told == [False]
    assert under_way.is_over


def test_nothing_is_under_way_for_good_wherever_a_handler_raises():
    under_way = UnderWay()

    def work():
        with under_way.begun():
            assert not under_way.is_over

    for strike in strikes(turns):
        with strike:
            work()
        assert under_way.is_over, strike.place


def test_a_bell_is_heard_though_it_rang_before_and_twice():
    bell = Bell()
    assert not bell.wait(0.001)
    bell.ring()
    bell.ring()
    assert bell.wait(10)


def test_a_bell_wakes_another_thread():
    bell = Bell()
    heard = []
    thread = threading.Thread(target=lambda: heard.append(bell.wait(10)))
    thread.start()
    bell.ring()
    thread.join(10)
    assert heard == [True]


def test_a_lock_is_held_here_by_its_own_thread_only():
    lock = threading.RLock()
    told = []
    with lock:
        assert is_held_here(lock)
        thread = threading.Thread(target=lambda: told.append(is_held_here(lock)))
        thread.start()
        thread.join(10)
    assert told == [False]
    assert not is_held_here(lock)
