"""What was taken a moment ago: equal repeats pass, other messages do not, and it soon forgets."""

from halfhitch.service.transactions.taken import Taken
from harness.ledger_script import identity_of

T1, T2 = identity_of("T1"), identity_of("T2")


class Watch:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_other_messages_under_an_id_are_refused_and_the_first_ones_stay() -> None:
    taken = Taken(Watch())
    assert taken.claim(T1, 0, (1, 2))
    assert taken.claim(T1, 0, (1, 2))
    assert not taken.claim(T1, 0, (1, 3))
    assert not taken.claim(T1, 1, (3,))
    assert taken.claim(T1, 0, (1,))
    assert taken.claim(T1, 2, (3,))
    assert not taken.claim(T1, 2, (4,))
    assert taken.claim(T2, 0, (9,))


def test_what_was_taken_twice_under_an_id_is_known_as_that_for_a_while() -> None:
    watch = Watch()
    taken = Taken(watch)
    assert taken.claim(T1, 0, (1,))
    assert taken.claim(T1, 1, (2,)), "it was added to, and not repeated"
    assert not taken.was_taken_again(T1)
    assert taken.claim(T1, 0, (1,))
    assert taken.was_taken_again(T1)
    assert not taken.was_taken_again(T2)
    watch.now_s += 200
    assert not taken.was_taken_again(T1)


def test_what_was_refused_leaves_nothing_behind() -> None:
    taken = Taken(Watch())
    assert taken.claim(T1, 1, (2,))
    assert not taken.claim(T1, 0, (1, 3))
    assert taken.claim(T1, 0, (5,))


def test_what_was_surely_not_stored_may_be_another_message_the_next_time() -> None:
    watch = Watch()
    taken = Taken(watch)
    taken.claim(T1, 0, (1, 2))
    taken.release(T1, 1)
    taken.release(T2, 0)
    assert not taken.claim(T1, 0, (3,))
    assert taken.claim(T1, 1, (3,))
    watch.now_s += 61
    taken.claim(T2, 0, (9,))
    taken.release(T1, 0)
    assert taken.claim(T1, 0, (3,))


def test_an_id_is_new_once_and_not_even_an_equal_message_makes_it_new_again() -> None:
    watch = Watch()
    taken = Taken(watch)
    assert taken.claim_new(T1, 1)
    assert not taken.claim_new(T1, 1)
    assert not taken.claim(T1, 0, (2,))
    assert taken.claim(T1, 0, (1,))
    assert taken.claim(T2, 0, (5,))
    assert not taken.claim_new(T2, 5)
    watch.now_s += 61
    assert not taken.claim_new(T1, 1)
    watch.now_s += 130
    assert taken.claim_new(T1, 2)


def test_it_remembers_for_a_minute_and_forgets_after_two() -> None:
    watch = Watch()
    taken = Taken(watch)
    taken.claim(T1, 0, (1,))
    watch.now_s += 59
    taken.claim(T2, 0, (9,))
    watch.now_s += 59
    assert not taken.claim(T1, 0, (2,))
    watch.now_s += 59
    taken.claim(T2, 0, (9,))
    watch.now_s += 59
    assert taken.claim(T1, 0, (2,))
    watch.now_s += 200
    assert taken.claim(T1, 0, (3,)), "nothing came by that would have made it forget"


def test_it_holds_so_many_twice_at_most() -> None:
    taken = Taken(Watch(), count_max=10)
    for number in range(30):
        taken.claim(identity_of(f"N{number}"), 0, (1,))
    known = 0
    while not taken.claim(identity_of(f"N{29 - known}"), 0, (2,)):
        known += 1
    assert 10 <= known <= 20
