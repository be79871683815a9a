"""What answers for an owner that has perhaps not read it."""

from __future__ import annotations

from halfhitch.core.model import Identity, Resolution
from halfhitch.service.transactions import remembered
from halfhitch.service.transactions.asked import UnderWay
from halfhitch.service.transactions.remembered import Forgotten, Remembered, read_to
from harness.twin import identity

T1 = identity("T1")
ONE = UnderWay(Resolution.COMMIT)


def one_put() -> Remembered:
    it = Remembered()
    it.stored(10, 0, 100.0)
    it.note(5)
    it.put(T1, ONE, 100.0)
    return it


def is_there(it: Remembered, now_s: float, which: Identity = T1) -> bool:
    return it.find(which, now_s) is not None


def test_while_nothing_is_stored_nothing_is_forgotten() -> None:
    it = one_put()
    assert is_there(it, 699.0)
    assert not is_there(it, 701.0), "an id may be used anew some day"


def test_what_an_owner_has_read_is_forgotten_with_what_is_stored_in_the_next_seconds() -> None:
    it = one_put()
    it.stored(11, 11, 100.9)
    it.stored(12, 11, 101.2)
    assert is_there(it, 101.2)
    it.stored(13, 12, 102.1)
    assert is_there(it, 102.1)
    it.stored(14, 12, 102.3)
    assert not is_there(it, 102.3)


def test_what_an_owner_has_not_read_is_kept_however_much_is_stored() -> None:
    it = one_put()
    for second in range(50):
        it.stored(11 + second, 10, 102.0 + second)
    assert is_there(it, 152.0)
    it.stored(99, 11, 154.0)
    assert not is_there(it, 154.0), "it lay below 11, and that is read now"


def test_where_no_owner_works_it_is_kept_for_as_long_as_a_takeover_takes() -> None:
    it = one_put()
    for second in range(1, 20):
        it.stored(10 + second, None, 100.0 + second)
    assert is_there(it, 119.0)
    it.stored(99, None, 122.1)
    assert not is_there(it, 122.1)


def test_a_flood_is_not_kept_whatever_its_owner_has_read() -> None:
    it = one_put()
    for generation in range(2):
        assert is_there(it, 100.0)
        for number in range(remembered._COUNT_MAX):
            it.put(identity(str(number)), ONE, 100.0)
        it.stored(11 + generation, 0, 100.0)
    assert not is_there(it, 100.0)
    assert is_there(it, 100.0, identity("1"))


def test_of_what_is_forgotten_it_is_known_where_it_lay() -> None:
    it = one_put()
    assert it.forgotten == Forgotten(0, 0)
    it.stored(11, 10, 102.0)
    it.note(3)
    it.put(identity("T2"), ONE, 102.0)
    it.stored(15, 11, 104.0)
    assert it.forgotten == Forgotten(half_end=6, op_end=11)
    it.stored(19, 15, 106.0)
    assert it.forgotten == Forgotten(half_end=6, op_end=15), "T2 is forgotten, too"


def test_what_was_forgotten_because_nothing_came_is_known_as_forgotten() -> None:
    it = one_put()
    assert not is_there(it, 701.0)
    assert it.forgotten == Forgotten(half_end=6, op_end=11)


def test_what_is_not_to_be_remembered_is_forgotten_at_once() -> None:
    it = one_put()
    it.pass_over(half_offset=7, op_offset=11)
    assert it.forgotten == Forgotten(half_end=8, op_end=12)
    for second in (2, 4):
        it.stored(11, 20, 100.0 + second)
    assert it.forgotten == Forgotten(half_end=8, op_end=12), "it does not go back"


def test_whoever_has_read_it_need_not_remember_it() -> None:
    forgotten = Forgotten(half_end=6, op_end=11)
    assert forgotten.may_hold(5, None)
    assert forgotten.may_hold(5, 10)
    assert not forgotten.may_hold(5, 11)
    assert not forgotten.may_hold(6, None), "it was prepared later"


def test_native_threads_are_told_of_every_half_partition() -> None:
    assert read_to(3, {0: 17, 2: None}.get) == [17, -1, -1]
