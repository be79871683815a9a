"""What a caller may do, and the sentence of whoever may not."""

from __future__ import annotations

import pytest

from halfhitch.access import EVERYBODY, Caller, Right
from halfhitch.errors import Forbidden


def shop(*rights: Right, **more: object) -> Caller:
    values: dict[str, object] = {"groups": ("shop", "shop-*"), "topics": ("orders", "points.*")}
    return Caller("shop", rights or (Right.PRODUCE, Right.CHECK), **{**values, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("group", "may"),
    [
        ("shop", True),
        ("shop-eu", True),
        ("bank", False),
        ("shops", False),
        ("Shop", False),
        ("xshop", False),
        ("shop\nbank", False),
        ("bank\nshop", False),
        ("", False),
    ],
)
def test_a_right_holds_for_the_groups_it_names_and_no_other(group: str, may: bool) -> None:
    caller = shop()
    for _ in range(2):  # the second time from memory
        assert caller.may(Right.PRODUCE, group) is may
        assert caller.may(Right.CHECK, group) is may


def test_a_right_that_was_not_given_holds_for_no_group() -> None:
    caller = shop(Right.CHECK)
    assert not caller.may(Right.PRODUCE, "shop")
    assert not caller.may(Right.OPERATE, "shop")
    assert not caller.may_send_to("orders")


def test_topics_are_asked_for_beside_the_group() -> None:
    caller = shop()
    caller.require_produce("shop", ["orders", "points.eu"])
    with pytest.raises(Forbidden, match=r"'shop' has no right 'produce' for topic 'payments'"):
        caller.require_produce("shop", ["orders", "payments"])
    with pytest.raises(Forbidden, match=r"'shop' has no right 'produce' for producer group 'bank'"):
        caller.require_produce("bank", ["orders"])


def test_an_operator_observes_and_an_admin_may_do_everything() -> None:
    operator = shop(Right.OPERATE, topics=())
    assert operator.may(Right.OBSERVE, "shop")
    assert not operator.may(Right.PRODUCE, "shop")
    assert not operator.sees_all
    admin = Caller("ops", (Right.ADMIN,))
    assert all(admin.may(right, "any") for right in Right)
    assert admin.may_send_to("any")
    assert admin.sees_all
    admin.require_admin()
    admin.require_all()


def test_what_tells_of_all_groups_needs_all_groups() -> None:
    with pytest.raises(Forbidden, match="for all producer groups"):
        shop(Right.OBSERVE).require_all()
    shop(Right.OBSERVE, groups=("*",)).require_all()
    with pytest.raises(Forbidden, match="for all producer groups"):
        shop(Right.PRODUCE, groups=("*",)).require_all()
    with pytest.raises(Forbidden, match="no right 'observe', for no group"):
        shop().require_somewhere(Right.OBSERVE)
    with pytest.raises(Forbidden, match="no right 'admin'"):
        shop(*(right for right in Right if right is not Right.ADMIN)).require_admin()


def test_one_of_several_rights_is_enough_and_the_first_is_named() -> None:
    wanted = (Right.PRODUCE, Right.OBSERVE)
    shop(Right.OBSERVE).require_any(wanted, "shop")
    with pytest.raises(Forbidden, match="no right 'produce'"):
        shop(Right.CHECK).require_any(wanted, "shop")


def test_each_refusal_is_counted_once() -> None:
    refused: list[Right] = []
    caller = shop(refused=refused.append)
    with pytest.raises(Forbidden):
        caller.require(Right.OPERATE, "shop")
    with pytest.raises(Forbidden):
        caller.require_topic("payments")
    with pytest.raises(Forbidden):
        caller.require_any((Right.OBSERVE, Right.OPERATE), "shop")
    assert refused == [Right.OPERATE, Right.PRODUCE, Right.OBSERVE]


def test_a_name_that_somebody_made_up_cannot_write_into_the_log() -> None:
    with pytest.raises(Forbidden) as caught:
        shop().require(Right.PRODUCE, "\x1b[2J\u202e" + "x" * 1_000)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 400


def test_what_is_remembered_is_bounded_and_right_all_the_same() -> None:
    caller = shop()
    for number in range(3_000):
        assert caller.may(Right.PRODUCE, f"shop-{number}")
        assert not caller.may(Right.PRODUCE, f"bank-{number}")
        assert caller.may_send_to(f"points.{number}")
    assert len(caller._known_groups) <= 1_024
    assert len(caller._known_topics) <= 1_024


def test_names_that_are_too_long_to_be_any_are_refused_and_not_remembered() -> None:
    """A thousand names of a megabyte each would stay in memory for one identity."""
    caller = shop()
    assert not caller.may(Right.PRODUCE, "shop-" + "g" * 251)
    assert not caller.may_send_to("points." + "t" * 243)
    assert not caller._known_groups
    assert not caller._known_topics
    assert caller.may(Right.PRODUCE, "shop-" + "g" * 250)
    assert caller.may_send_to("points." + "t" * 242)
    with pytest.raises(Forbidden, match=r"\(256 characters, more than any name has\)"):
        caller.require(Right.PRODUCE, "shop-" + "g" * 251)


def test_where_nobody_is_told_apart_everybody_may_do_everything() -> None:
    assert EVERYBODY.name is None
    assert EVERYBODY.is_free
    EVERYBODY.require(Right.OPERATE, "any")
    EVERYBODY.require_produce("any", ["any"])
    EVERYBODY.require_admin()
