"""What becomes of those that nobody answers for."""

from __future__ import annotations

import pytest

from halfhitch.core.model import Resolution
from halfhitch.errors import ConfigurationError
from halfhitch.service.checking.policy import GiveUpPolicy

PARK, ROLLBACK, COMMIT = Resolution.PARK, Resolution.ROLLBACK, Resolution.COMMIT


@pytest.mark.parametrize(
    ("topics", "resolution"),
    [
        (["orders.eu"], ROLLBACK),
        (["orders.us"], COMMIT),
        (["orders"], PARK),
        (["Orders.eu"], PARK),
        (["mail"], COMMIT),
        (["orders.eu", "mail"], ROLLBACK),
        (["mail", "orders.eu"], ROLLBACK),
        (["mail", "unheard-of"], PARK),
        (["orders.eu", "unheard-of"], PARK),
        (["a=b"], ROLLBACK),
        ([], PARK),
    ],
)
def test_the_first_match_counts_and_the_most_cautious_of_several_topics(
    topics: list[str], resolution: Resolution
) -> None:
    policy = GiveUpPolicy(
        "park", ("orders.us=commit", " orders.* = rollback ", "mail=commit", "a=b=rollback")
    )
    assert policy.of(topics) is resolution
    assert policy.of(topics) is resolution  # remembered


def test_without_patterns_the_default_holds_for_all() -> None:
    assert GiveUpPolicy("commit").of(["orders", "mail"]) is COMMIT
    assert GiveUpPolicy("rollback").of(["orders"]) is ROLLBACK


def test_topics_without_number_take_no_memory_without_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("halfhitch.service.checking.policy._CACHE_MAX", 10)
    policy = GiveUpPolicy("park", ("orders.*=rollback",))
    for number in range(100):
        assert policy.of([f"orders.{number}"]) is ROLLBACK
    assert len(policy._of_topic) == 10


@pytest.mark.parametrize("text", ["orders.*", "orders.*=", "=rollback", "orders.*=delete", "", "="])
def test_a_pattern_without_a_policy_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"checks\.give_up_topics.*rollback"):
        GiveUpPolicy("park", (text,))


def test_an_unknown_policy_is_refused_by_its_setting() -> None:
    with pytest.raises(ConfigurationError, match=r"checks\.give_up:.*'drop'.*park, rollback"):
        GiveUpPolicy("drop")
