"""Which instances have live producers, as last heard, and which groups somebody asks about."""

import pytest

from halfhitch.adapters.redis import presence
from halfhitch.adapters.redis.presence import PresenceTable


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1_000.0]
    monkeypatch.setattr(presence.time, "monotonic", lambda: now[0])
    return now


def test_what_is_announced_again_is_no_news(clock: list[float]) -> None:
    table = PresenceTable("a")
    assert table.announce(["shop", "bank"])
    assert not table.announce(["bank", "shop"])
    assert table.announce(["shop"])


def test_who_has_gone_is_told_once_and_again_if_it_could_not_be_written(
    clock: list[float],
) -> None:
    table = PresenceTable("a")
    table.announce(["shop", "bank"])
    table.announce(["shop"])
    assert table.to_announce() == ({"shop"}, {"bank"})
    assert table.to_announce() == ({"shop"}, set())
    table.withdraw_again(["bank", "shop"])
    assert table.to_announce() == ({"shop"}, {"bank"})


def test_what_was_heard_long_ago_counts_as_unknown(clock: list[float]) -> None:
    table = PresenceTable("a")
    assert table.instances("shop") == ((), True)
    table.heard("shop", [b"b", b"a", b"", b"\xff", "no bytes", b"x" * 2_000])
    assert table.instances("shop") == (("b",), False), "not ourselves, and no rubbish"
    clock[0] += presence.PRESENCE_S
    assert table.instances("shop") == ((), False)


def test_groups_that_nobody_asks_about_are_forgotten(clock: list[float]) -> None:
    table = PresenceTable("a")
    table.instances("shop")
    clock[0] += 40
    table.instances("bank")
    assert sorted(table.to_ask()) == ["bank", "shop"]
    clock[0] += 40
    assert table.to_ask() == ["bank"]
    assert table.instances("shop") == ((), True)


def test_so_many_groups_are_asked_about_and_no_more(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "_ASKED_MAX", 2)
    table = PresenceTable("a")
    assert [table.instances(group)[1] for group in ("one", "two", "three")] == [True, True, False]
    assert sorted(table.to_ask()) == ["one", "two"]


def test_an_answer_that_is_none_means_nobody(clock: list[float]) -> None:
    table = PresenceTable("a")
    table.heard("shop", None)
    assert table.instances("shop")[0] == ()
