"""A budget of log lines: what is left out is counted and told."""

from halfhitch.observability.lines import LineBudget


def test_ten_lines_a_minute_and_then_how_many_were_left_out() -> None:
    now_s = 5.0
    budget = LineBudget(lambda: now_s)
    assert [budget.take() for _ in range(12)] == [""] * 10 + [None] * 2
    now_s += 59.9
    assert budget.take() is None
    now_s += 0.1
    assert budget.take() == " (3 such lines were left out)"
    assert budget.take() == ""


def test_lines_that_come_in_crowds_have_a_larger_budget() -> None:
    budget = LineBudget(lambda: 5.0, count_max=3)
    assert [budget.take() for _ in range(4)] == ["", "", "", None]
