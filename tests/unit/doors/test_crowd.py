"""In the order of coming, of all and of each address."""

from halfhitch.doors.crowd import Crowd


def crowd_of(*members: tuple[str, str]) -> Crowd[str]:
    crowd: Crowd[str] = Crowd()
    for member, peer in members:
        crowd.add(member, peer)
    return crowd


def test_the_oldest_is_who_came_first_of_those_still_there() -> None:
    crowd = crowd_of(("a", "x"), ("b", "y"), ("c", "x"))
    assert (crowd.oldest(), crowd.oldest("x"), crowd.oldest("y")) == ("a", "a", "b")
    crowd.discard("a")
    assert (crowd.oldest(), crowd.oldest("x")) == ("b", "c")
    assert (len(crowd), "a" in crowd, "c" in crowd) == (2, False, True)


def test_nothing_is_left_of_who_has_gone() -> None:
    crowd = crowd_of(("a", "x"), ("b", "y"))
    for member in ("a", "b", "b", "never there"):
        crowd.discard(member)
    assert (len(crowd), crowd.oldest(), crowd.oldest("x"), crowd.count_of("x")) == (
        0,
        None,
        None,
        0,
    )
    assert (crowd._peers, crowd._peer_of) == ({}, {})


def test_who_brings_most_of_them_pushes_out_his_own() -> None:
    crowd = crowd_of(("a", "x"), ("b", "y"), ("c", "y"))
    assert crowd.next_to_go("y") == "b"
    assert crowd.next_to_go("x") == "a"
    assert crowd.next_to_go("z") == "a"
    crowd.discard("c")
    assert crowd.next_to_go("y") == "a", "half is not most"
