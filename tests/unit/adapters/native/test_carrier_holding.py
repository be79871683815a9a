"""Over HTTP: ends wait for those whose halves have landed, and halves for those whose ends have."""

from __future__ import annotations

from harness.native import native, needs_native

pytestmark = needs_native

Happened = list[tuple[int, str]]


def of(what: str, *at_us: int) -> Happened:
    return [(each, what) for each in at_us]


def gone(*happened: Happened) -> list[tuple[int, str, int]]:
    """When, what, and how many together."""
    return native.http_batches(sorted(one for some in happened for one in some))


def test_the_first_end_of_many_went_alone_and_the_others_waited_for_it() -> None:
    began = [*of("half", *range(0, 80, 10)), *of("halves landed", 300, 600)]
    assert gone(began) == [(0, "halves", 1), (300, "halves", 7)]
    began += [*of("end", 340), *of("ends landed", 590)]  # of the one half that went alone
    ends = of("end", 650, 660, 670, 680, 690, 700, 710)
    assert gone(began, ends)[2:] == [(340, "ends", 1), (710, "ends", 7)]


def test_halves_wait_for_those_whose_ends_have_landed() -> None:
    began = [*of("half", *range(0, 90, 10)), *of("halves landed", 300, 600)]
    began += [*of("end", *range(650, 658)), *of("ends landed", 900)]
    assert gone(began)[2:] == [(657, "ends", 8)]
    assert gone(began, of("half", *range(950, 958)))[3:] == [(957, "halves", 8)]
    assert gone(began, of("half", 950, 951), of("look", 1_385, 1_386))[3:] == [(1_386, "halves", 2)]


def test_an_end_waits_no_longer_than_twice_as_long_as_the_halves_were_on_their_way() -> None:
    began = [*of("half", *range(0, 60, 10)), *of("halves landed", 300, 600), *of("end", 650)]
    assert gone(began, of("look", 1_199))[2:] == []
    assert gone(began, of("look", 1_199, 1_200))[2:] == [(1_200, "ends", 1)]


def test_a_half_that_waited_had_to_wait_for_all_whose_ends_landed_after_it() -> None:
    """For ever. A wait that somebody feels is not begun anew."""
    happened = [*of("half", *range(0, 80, 10)), *of("halves landed", 300, 600)]
    happened += [
        *of("end", *range(650, 20_000, 50)),
        *of("ends landed", *range(1_000, 20_000, 400)),
    ]
    happened += [*of("half", 5_050), *of("look", *range(5_100, 20_000, 100))]
    assert [one for one in gone(happened) if one[1] == "halves"][2:] == [(5_800, "halves", 1)]


def test_one_end_that_landed_ended_the_wait_for_eight() -> None:
    """It could bring no more than one half, and what had landed before could bring eight."""
    began = [*of("half", *range(0, 90, 10)), *of("halves landed", 300, 600)]
    began += [*of("end", *range(650, 658)), *of("ends landed", 900)]
    one_more = [*of("end", 905), *of("ends landed", 930)]
    assert gone(began, one_more, of("half", *range(950, 958)))[4:] == [(957, "halves", 8)]


def test_callers_with_local_transactions_are_waited_for_more_and_more_seldom() -> None:
    """Nine, the first of which has done its own at once, and the others 5 ms after their halves."""
    happened: Happened = []
    for turn in range(40):
        at_us = turn * 10_000
        happened += of("half", *range(at_us, at_us + 9))
        happened += of("halves landed", at_us + 300, at_us + 600)
        happened += of("end", at_us + 700, *range(at_us + 5_300, at_us + 5_308))
        happened += of("look", at_us + 1_200)
        happened += of("ends landed", at_us + 1_500, at_us + 5_600, at_us + 5_900)
    found = gone(happened)
    counts = {kind: sum(n for _, what, n in found if what == kind) for kind in ("halves", "ends")}
    assert counts == {"halves": 360, "ends": 360}
    late = [when for when, what, _ in found if what == "ends" and when % 10_000 == 1_200]
    assert 1 <= len(late) <= 7, late


def test_commits_keep_their_order_where_roll_backs_go_behind_them() -> None:
    """The messages of one key follow it. A sort that keeps it for few may not for many."""
    asked = [(str(number), number % 3 != 1) for number in range(300)]
    commits, roll_backs = (
        [id_ for id_, is_commit in asked if is_commit is which] for which in (True, False)
    )
    assert native.records_of(asked) == [commits, roll_backs]


def test_roll_backs_among_commits_of_others_cut_no_record_into_many() -> None:
    began = [*of("half", *range(0, 80, 10)), *of("halves landed", 300, 600), *of("end", 340)]
    mixed = [
        (at_us, "rollback" if n % 3 == 1 else "end") for n, at_us in enumerate(range(350, 420, 10))
    ]
    landed = of("ends landed", 590)
    assert gone(began, mixed, landed)[3:] == [(590, "ends", 5), (590, "rollbacks", 2)]
    twice = [(350, "end"), (360, "end"), (360, "rollback"), (370, "end")]  # 360 is one transaction
    assert gone(began, twice, landed)[3:] == [
        (590, "ends", 2),
        (590, "rollbacks", 1),
        (590, "ends", 1),
    ]
