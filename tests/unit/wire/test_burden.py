"""What owners tell each other of their bounds: to text and back."""

from __future__ import annotations

import pytest

from halfhitch.wire.burden import TEAM, TEXT_BYTES_MAX, Burden, Over, read, write

FULL = Burden(Over(50_001, 50_000), Over(9, 8), {"shop": Over(25_000, 25_000), "ü": Over(7, 5)})


TEAMS = Burden(groups={TEAM + "bank": Over(25_000, 25_000), "shop": Over(7, 5)})
AWAY = Burden(groups={"shop": Over(7, 5)}, topics={"orders": Over(31, 25), "ü": Over(26, 25)})


@pytest.mark.parametrize("burden", [FULL, AWAY, TEAMS, Burden(), Burden(lag_s=Over(9, 8))])
def test_what_is_written_is_read_again(burden: Burden) -> None:
    assert read(write(burden)) == burden


def test_the_form_stands() -> None:
    assert write(FULL) == '["1",[50001,50000],[9,8],{"shop":[25000,25000],"ü":[7,5]}]'
    assert write(Burden()) == '["1",null,null,{}]'
    topics = '{"orders":[31,25],"ü":[26,25]}'
    assert write(AWAY) == f'["1",null,null,{{"shop":[7,5]}},{topics}]'


def test_a_burden_without_any_bound_reached_is_none() -> None:
    assert not Burden()
    assert Burden(groups={"shop": Over(7, 5)})
    assert not Burden(groups={"shop": Over(7, 5)}).is_whole
    assert AWAY
    assert Burden(topics=AWAY.topics)
    assert not AWAY.is_whole
    assert Burden(lag_s=Over(9, 8)).is_whole
    assert Burden(undecided=Over(9, 8)).is_whole


def test_groups_that_do_not_fit_into_the_text_are_left_out_and_the_largest_are_told() -> None:
    groups = {f"{number:03}" + '"' * 252: Over(number, 1) for number in range(100)}
    text = write(Burden(groups=groups))
    assert len(text.encode()) <= TEXT_BYTES_MAX
    found = read(text)
    assert found is not None
    assert [over.value for over in found.groups.values()] == [99, 98, 97, 96, 95, 94]


def test_topics_go_before_groups_where_the_text_is_short() -> None:
    """They are few; and without them a refusal of everything could not say what fills it."""
    groups = {f"{number:03}" + '"' * 252: Over(number, 1) for number in range(100)}
    text = write(Burden(groups=groups, topics={"orders": Over(1, 1)}))
    assert len(text.encode()) <= TEXT_BYTES_MAX
    found = read(text)
    assert found is not None
    assert found.topics == {"orders": Over(1, 1)}
    assert len(found.groups) == 6


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        '["2",null,null,{}]',
        '["1",null,null]',
        '["1",[1],null,{}]',
        '["1",null,null,{"g":[1,"2"]}]',
        '["1",null,null,{"%s":[1,2]}]' % ("g" * 256),
        '["1",null,null,{},{"%s":[1,2]}]' % ("t" * 256),
        '["1",null,null,{},{"t":[1,"2"]}]',
        '["1",null,null,{},{},{}]',
        "\ud800",
    ],
)
def test_a_text_of_another_form_says_nothing(text: str) -> None:
    assert read(text) is None
