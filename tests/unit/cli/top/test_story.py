"""One transaction as a text; its messages only when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch.service.api import ParkedMessage
from halfhitch_cli.client import AdminClient
from halfhitch_cli.top import story
from halfhitch_cli.top.looking import Door
from harness import identities
from harness.admin_door import admin_door
from harness.fake_operations import FakeOperations, parked, undecided
from harness.told import ToldLog, answered, asked, ended, stories_service

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = b"the customer's name\x1b[2J"


@pytest.fixture
def operations() -> FakeOperations:
    message = ParkedMessage("orders", None, b"k", SECRET, [("note", b"[red]")])
    return FakeOperations([undecided("T1")], [parked("P1")], [message])


@pytest.fixture
def log() -> ToldLog:
    found = ToldLog([asked(), answered(), ended()])
    found.targets.value = SECRET
    return found


@pytest.fixture
def door(operations: FakeOperations, log: ToldLog) -> Iterator[Door]:
    settings = {"checks.give_up": "park", "checks.age_s_max": 259_200}
    with admin_door(operations, settings, stories=stories_service(log, operations)) as port:
        yield Door(AdminClient("127.0.0.1", port))


def told(door: Door, name: str, *, values: bool = False, group: str = "shop") -> str:
    return story.told(door, group, name, values=values).plain


def test_an_undecided_one_is_explained_and_its_story_told(door: Door) -> None:
    text = told(door, "T1")
    assert "Transaction T1 of group shop: 2 messages for orders, points" in text
    assert "when it is 3d00h old, its messages are parked" in text


def test_one_that_has_ended_is_told_line_by_line(door: Door) -> None:
    text = told(door, "E1")
    assert "E1 of group shop: 1 message for orders." in text
    assert "check 1, unknown, by pod-8, after 480 ms" in text
    assert "forwarded" in text


@pytest.mark.parametrize("name", ["T1", "P1", "E1"])
def test_no_message_is_asked_for_before_somebody_wants_it(
    name: str, door: Door, operations: FakeOperations, log: ToldLog
) -> None:
    text = told(door, name)
    assert "customer" not in text
    assert log.targets.asked == []
    assert not [call for call in operations.calls if call[0] == "content"]


def test_messages_are_shown_on_demand_and_drive_nothing(door: Door) -> None:
    text = told(door, "P1", values=True)
    assert "the customer's name\\x1b[2J" in text
    assert "note=[red]" in text
    text = told(door, "E1", values=True)
    assert "orders/2@17" in text
    assert "the customer's name\\x1b[2J" in text


def test_what_was_not_found_of_the_messages_is_said(door: Door, log: ToldLog) -> None:
    log.targets.trouble = "the topic is gone"
    assert "Not all of them: the topic is gone." in told(door, "E1", values=True)


def test_nothing_known_is_said_with_how_far_was_looked(door: Door) -> None:
    text = told(door, "nobody[red]")
    assert "Nothing more is known of nobody[red]. What has ended is kept since" in text


def test_who_may_not_read_settings_is_told_the_rest(
    operations: FakeOperations, log: ToldLog
) -> None:
    stories = stories_service(log, operations)
    with admin_door(operations, {}, access=identities.access(), stories=stories) as port:
        watcher = Door(AdminClient("127.0.0.1", port, identities.WATCHER))
        assert "Transaction T1 of group shop" in told(watcher, "T1")
        assert "customer" not in told(watcher, "P1", values=True)


def test_without_an_audit_topic_the_rest_is_told(operations: FakeOperations) -> None:
    with admin_door(operations, {}) as port:
        text = told(Door(AdminClient("127.0.0.1", port)), "T1")
        assert "Transaction T1 of group shop" in text
        assert "There is no such route" in text
