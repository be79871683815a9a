"""Who is meant by an action, and the doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import typer

from halfhitch.errors import RequestError, TransactionNotFound
from halfhitch_cli.bulk import Account
from halfhitch_cli.client import AdminClient
from halfhitch_cli.selection import Filters
from halfhitch_cli.top import doing
from halfhitch_cli.top.doing import DEEDS
from halfhitch_cli.top.looking import Door
from harness import identities
from harness.admin_door import admin_door
from harness.fake_operations import FakeOperations, parked, undecided

if TYPE_CHECKING:
    from collections.abc import Iterator

ROLLBACK, CHECK, RESUME = DEEDS["rollback"], DEEDS["check"], DEEDS["resume"]


def row(name: str, group: str = "shop") -> dict[str, str]:
    return {"transaction_id": name, "producer_group": group}


@pytest.fixture
def operations() -> FakeOperations:
    pending = [undecided("T1"), undecided("T2", "bank"), undecided("T3")]
    return FakeOperations(pending, [parked("P1"), parked("P2")])


@pytest.fixture
def door(operations: FakeOperations) -> Iterator[Door]:
    with admin_door(operations, {}) as port:
        yield Door(AdminClient("127.0.0.1", port))


def test_a_dry_run_does_nothing_and_names_who_is_still_there(
    door: Door, operations: FakeOperations
) -> None:
    agreed = doing.meant(door, ROLLBACK, [row("T1"), row("gone")])
    assert [each["transaction_id"] for each in agreed.rows] == ["T1"]
    assert (agreed.gone_count, agreed.forbidden_count, agreed.beyond_count) == (1, 0, 0)
    many = doing.meant(door, ROLLBACK, [row(f"x{number}") for number in range(11)])
    assert (len(many.rows), many.gone_count) == (11, 0)
    assert operations.done() == []


def test_one_that_cannot_be_looked_at_is_left_to_the_door(
    door: Door, operations: FakeOperations
) -> None:
    operations.missing_partitions = [2]
    assert [each["transaction_id"] for each in doing.meant(door, CHECK, [row("far")]).rows] == [
        "far"
    ]


def test_all_that_match_is_the_command_lines_own_and_wants_a_filter(
    door: Door, operations: FakeOperations
) -> None:
    agreed = doing.meant(door, ROLLBACK, Filters(group="shop"))
    assert [each["transaction_id"] for each in agreed.rows] == ["T1", "T3"]
    with pytest.raises(RequestError, match="would take all groups"):
        doing.meant(door, ROLLBACK, Filters())
    assert len(doing.meant(door, RESUME, Filters()).rows) == 2
    operations.left_out_count = 3
    assert doing.meant(door, RESUME, Filters()).beyond_count == 3


def test_groups_that_one_may_not_operate_on_are_left_out_and_counted(
    operations: FakeOperations,
) -> None:
    with admin_door(operations, {}, access=identities.access()) as port:
        root = Door(AdminClient("127.0.0.1", port, identities.ROOT))
        keeper = Door(AdminClient("127.0.0.1", port, identities.KEEPER))
        assert len(doing.meant(root, ROLLBACK, [row("T1"), row("T2", "bank")]).rows) == 2
        many = [row(f"x{n}", "bank" if n % 2 else "shop") for n in range(20)]
        agreed = doing.meant(keeper, ROLLBACK, many)
        assert (len(agreed.rows), agreed.forbidden_count) == (10, 10)
        watcher = Door(AdminClient("127.0.0.1", port, identities.WATCHER))
        assert doing.meant(watcher, ROLLBACK, [row("T1")]).rows == []


def test_it_is_done_to_those_alone_and_accounted_for(
    door: Door, operations: FakeOperations
) -> None:
    agreed = doing.meant(door, ROLLBACK, Filters(older_than="0s"))
    operations.pending.append(undecided("later"))
    operations.fails["T3"] = TransactionNotFound("it was committed")
    account = Account(tell=lambda _: None)
    doing.carry_out(door, ROLLBACK, agreed, "paid twice", "alice", account)
    assert sorted(call[2] for call in operations.done()) == ["T1", "T2", "T3"]
    assert all(call[3:] == ("paid twice", "alice") for call in operations.done())
    assert (len(account.done), [each["failure"] for each in account.failed]) == (
        2, ["it was committed"],
    )  # fmt: skip


def test_a_reason_must_be_there_but_for_a_check(door: Door, operations: FakeOperations) -> None:
    agreed = doing.meant(door, ROLLBACK, [row("T1")])
    for reason, operator in (("", "alice"), ("why\x1b", "alice"), ("why", " ")):
        with pytest.raises(typer.BadParameter):
            doing.carry_out(door, ROLLBACK, agreed, reason, operator, Account())
    assert operations.done() == []
    doing.carry_out(door, CHECK, agreed, "", None, Account())
    doing.carry_out(door, RESUME, doing.meant(door, RESUME, [row("P1")]), "why", None, Account())
    assert [call[0] for call in operations.done()] == ["check", "resume"]
