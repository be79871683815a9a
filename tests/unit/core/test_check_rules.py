"""How long from one check to the next."""

import pytest

from halfhitch.core.model import ProducerGroup, TransactionId
from harness.defaults import check_rules
from harness.ledger_script import identity_of

T1 = identity_of("T1")


def test_the_rules_are_those_of_rocketmq_unless_told_otherwise() -> None:
    rules = check_rules()
    assert (rules.immunity_ms, rules.interval_ms, rules.count_max) == (6_000, 60_000, 15)
    assert rules.age_ms_max == 72 * 3_600_000


def test_without_backoff_and_jitter_all_intervals_are_the_same() -> None:
    rules = check_rules(jitter=0.0)
    assert {rules.interval_after_ms(T1, number) for number in range(20)} == {60_000}


def test_with_a_backoff_each_is_longer_up_to_the_longest() -> None:
    rules = check_rules(jitter=0.0, backoff=2.0, interval_ms=1_000, interval_ms_max=5_000)
    found = [rules.interval_after_ms(T1, number) for number in range(1, 6)]
    assert found == [1_000, 2_000, 4_000, 5_000, 5_000]


def test_a_longest_interval_below_the_first_one_does_not_shorten_it() -> None:
    rules = check_rules(jitter=0.0, interval_ms=60_000, interval_ms_max=100)
    assert rules.interval_after_ms(T1, 3) == 60_000


@pytest.mark.parametrize("number", [0, 1, 64, 65, 1_000, 10_000, 10**9])
@pytest.mark.parametrize("backoff", [1.0, 1.1, 2.0, 10.0])
def test_no_number_is_too_large_for_any_backoff(backoff: float, number: int) -> None:
    rules = check_rules(backoff=backoff)
    assert 60_000 <= rules.interval_after_ms(T1, number) <= 1.1 * rules.interval_ms_max


def test_jitter_makes_intervals_longer_never_shorter_and_spreads_them() -> None:
    rules = check_rules(jitter=0.5)
    found = [rules.interval_after_ms(identity_of(f"T{n}"), 1) for n in range(1_000)]
    assert 60_000 <= min(found) < 62_000
    assert 88_000 < max(found) <= 90_000
    assert len(set(found)) > 900


def test_jitter_is_the_same_on_replay_and_differs_from_check_to_check() -> None:
    rules = check_rules()
    again = check_rules()
    found = [rules.interval_after_ms(T1, number) for number in range(1, 10)]
    assert found == [again.interval_after_ms(T1, number) for number in range(1, 10)]
    assert len(set(found)) > 5


def test_an_id_in_any_script_has_its_jitter() -> None:
    identity = ProducerGroup("g"), TransactionId("\u20ac\U0001f600\x00")
    assert check_rules().interval_after_ms(identity, 1) >= 60_000
