"""What a page asks the door, and how often."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.errors import BackendError, HalfHitchError
from halfhitch_cli.client import AdminClient, Refusal, TokenAsked
from halfhitch_cli.selection import Filters
from halfhitch_cli.top import looking
from halfhitch_cli.top.looking import Door, Look, Looking, Wish
from harness import identities
from harness.admin_door import admin_door
from harness.fake_operations import FakeOperations, parked, undecided
from harness.scripted_admin import STATUS
from harness.scripted_admin import Door as ScriptedDoor
from harness.told import ToldLog, ended, stories_service

if TYPE_CHECKING:
    from collections.abc import Iterator


def door(port: int, token: str | None = None) -> Door:
    return Door(AdminClient("127.0.0.1", port, token))


@pytest.fixture
def operations() -> FakeOperations:
    return FakeOperations([undecided("T1"), undecided("T2", "bank")], [parked("P1")])


@pytest.fixture
def port(operations: FakeOperations) -> Iterator[int]:
    stories = stories_service(ToldLog([ended()]), operations)
    with admin_door(operations, {}, info={"instance": "shop-1"}, stories=stories) as found:
        yield found


def test_the_overview_is_a_few_bounded_requests(port: int, operations: FakeOperations) -> None:
    found = door(port).look(Wish())
    assert (found.total_count, found.parked_count) == (2, 1)
    assert [row["transaction_id"] for row in found.rows] == ["T1", "T2"]
    assert [row["producer_group"] for row in found.groups] == ["shop", "bank"]
    assert found.numbers is not None
    assert found.failures == {}
    assert found.may_operate
    asked = {name: wanted.count_max for name, wanted in operations.calls}
    assert asked == {"undecided": 5, "parked": 1}


@pytest.mark.parametrize(
    ("page", "count"), [("transactions", 2), ("parked", 1), ("groups", 2), ("partitions", 0)]
)
def test_a_list_asks_for_itself_alone(page: str, count: int, port: int) -> None:
    found = door(port).look(Wish(page))
    assert (len(found.rows), found.total_count) == (count, count)
    assert found.numbers is None


def test_a_filter_and_a_page_are_the_doors_own(port: int, operations: FakeOperations) -> None:
    wish = Wish("transactions", Filters(group="bank", older_than="10m", min_checks=1), 500)
    door(port).look(wish)
    ((_, wanted),) = operations.calls
    assert (wanted.producer_group, wanted.older_than_s, wanted.check_count_min) == ("bank", 600, 1)
    assert wanted.skip_count == 500
    assert len(door(port).look(Wish("groups", Filters(group="bank"))).rows) == 1


def test_what_an_identity_may_not_see_is_told_in_its_place(operations: FakeOperations) -> None:
    with admin_door(operations, {}, access=identities.access()) as port:
        found = door(port, identities.KEEPER).look(Wish())
        assert set(found.failures) == {"metrics", "ended"}
        assert "observe" in found.failures["metrics"]
        assert (found.me["name"], found.may_operate) == ("keeper", True)
        assert door(port, identities.KEEPER).may_operate(["shop", "bank"]) == {"shop"}
        assert not door(port, identities.WATCHER).look(Wish()).may_operate
        with pytest.raises(TokenAsked):
            door(port).look(Wish())


def test_rights_of_more_groups_than_one_question_takes(port: int) -> None:
    groups = [f"g{number}" for number in range(120)]
    assert door(port).may_operate(groups) == set(groups)


class Scripted(ScriptedDoor):
    """Of an older release: there is no /v1/me."""


@pytest.fixture
def scripted() -> Iterator[ScriptedDoor]:
    found = ScriptedDoor()
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join(10)


def test_an_older_sidecar_knows_no_rights_and_decides_itself(scripted: ScriptedDoor) -> None:
    scripted.say("/v1/status", 200, STATUS)
    found = door(scripted.port).look(Wish("partitions"))
    assert found.may_operate
    assert door(scripted.port).may_operate(["a"]) == {"a"}


def test_another_refusal_of_rights_is_no_right(scripted: ScriptedDoor) -> None:
    scripted.say("/v1/status", 200, STATUS)
    scripted.say("/v1/me", 403, {})
    scripted.say("/v1/me?group=a", 403, {})
    with pytest.raises(Refusal):
        door(scripted.port).look(Wish("partitions"))
    with pytest.raises(Refusal):
        door(scripted.port).may_operate(["a"])


# -- again and again -----------------------------------------------------------------------------


class Slow(Door):
    """Answers after `takes_s`, or with what `fails` says."""

    def __init__(self, takes_s: float = 0.0, fails: Exception | None = None) -> None:
        super().__init__(AdminClient("127.0.0.1", 1))
        self.takes_s = takes_s
        self.fails = fails
        self.asked: list[tuple[float, Wish]] = []

    def look(self, wish: Wish) -> Look:
        self.asked.append((time.monotonic(), wish))
        time.sleep(self.takes_s)
        if self.fails is not None:
            raise self.fails
        return Look(wish, 0.0)


def looked(slow: Slow, count: int, interval_s: float = 0.01) -> tuple[Looking, list[Any]]:
    told: list[Any] = []
    found = Looking(slow, interval_s, told.append)
    found.start()
    deadline_s = time.monotonic() + 20
    while len(told) < count:
        assert time.monotonic() < deadline_s
        time.sleep(0.005)
    return found, told


def test_a_slow_door_is_given_rest() -> None:
    slow = Slow(0.05)
    found, _ = looked(slow, 3)
    found.stop()
    times = [at_s for at_s, _ in slow.asked[:3]]
    assert min(later - at for at, later in pairwise(times)) > 0.45


def test_a_door_that_is_away_is_asked_soon_to_be_seen_coming_back() -> None:
    slow = Slow(0.05, BackendError("nobody"))
    began_s = time.monotonic()
    found, told = looked(slow, 5)
    found.stop()
    assert time.monotonic() - began_s < 5
    assert all(isinstance(each, HalfHitchError) for each in told)


def test_a_stranger_is_told_to_be_one_and_nothing_ends() -> None:
    for strange in (KeyError("ready"), TypeError("x"), ValueError("y"), AttributeError("z")):
        found, told = looked(Slow(fails=strange), 2)
        found.stop()
        assert "no sidecar's admin door" in told[0].message


def test_another_wish_is_looked_at_at_once_and_a_pause_holds() -> None:
    slow = Slow()
    found, told = looked(slow, 1, interval_s=3_600)
    found.wish(Wish("parked"))
    while len(told) < 2:
        time.sleep(0.005)
    assert told[1].wish.page == "parked"
    found.pause(is_paused=True)
    found.again()
    time.sleep(0.1)
    count = len(told)
    time.sleep(0.1)
    assert len(told) == count
    assert found.asking_s == 0.0
    found.stop()


def test_after_the_end_nothing_is_told() -> None:
    slow = Slow(0.1)
    told: list[Any] = []
    found = Looking(slow, 0.01, told.append)
    found.start()
    while not slow.asked:
        time.sleep(0.005)
    assert found.asking_s > 0
    found.stop()
    time.sleep(0.2)
    assert told == []


def test_all_pages_have_a_way_to_be_asked() -> None:
    from halfhitch_cli.top import pages

    assert set(looking._ASK) == set(pages.TITLES)
