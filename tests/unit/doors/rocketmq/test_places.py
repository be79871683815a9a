"""Places for producers: nobody takes all of them, and who gets none is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from halfhitch.access import Access, Right
from halfhitch.wire.remoting import codes
from harness.identities import bank, identity

if TYPE_CHECKING:
    import pytest

    from conftest import Stage

SECRETS = {"bank-key": "bank-secret", "many-key": "many-secret"}


def with_a_pattern() -> Access:
    """Team bank, and one that may answer for many groups."""
    rights = Right.PRODUCE, Right.CHECK
    many = identity("many", "m" * 32, *rights, groups=("m*",), topics=("*",), keys=("many-key",))
    return Access(identities=(bank(), many))


async def signed(stage: Stage, door: Any, team: str) -> Any:
    key = f"{team}-key"
    return await stage.client(door, access_key=key, secret_key=SECRETS[key])


async def test_one_identity_cannot_take_all_places_and_is_told_so(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """It took them all, and whoever came later was told success and never asked."""
    limits = {"producer_count_max": 6, "producer_identity_count_max": 3}
    door = await stage.open(access_secrets=SECRETS, access=with_a_pattern(), limits=limits)
    many, other = await signed(stage, door, "many"), await signed(stage, door, "many")
    assert (await many.heartbeat("m1", "m2")).code == 0
    refused = await other.heartbeat("m3", "m4")
    assert refused.code == codes.SYSTEM_BUSY
    assert refused.remark.startswith("[OVERLOAD] overloaded: producer group 'm4' is asked nothing")
    assert "identity 'many' has 3 places" in refused.remark
    assert "identity 'many' has 3 places" in caplog.text
    bank = await signed(stage, door, "bank")
    assert (await bank.heartbeat("bank")).code == 0
    groups = [link.producer_group for link in stage.desk.links]
    assert groups == ["m1", "m2", "m3", "bank"]
    assert door.snapshot().refused_producers == {"identity": 1}
    await many.unregister("m1")
    assert (await other.heartbeat("m4")).code == 0
    await other.__aexit__(None, None, None)
    await stage.until(lambda: door.snapshot().producer_count == 2, "its places to come free")
    assert (await many.heartbeat("m5", "m6")).code == 0


async def test_a_half_message_of_who_gets_no_place_is_stored_all_the_same(stage: Stage) -> None:
    """Others of its group may be asked; that this one is not, its heartbeats are told."""
    limits = {"producer_identity_count_max": 1}
    door = await stage.open(access_secrets=SECRETS, access=with_a_pattern(), limits=limits)
    many = await signed(stage, door, "many")
    assert (await many.heartbeat("m1")).code == 0
    assert (await many.half("m2", "orders", b"x", unique="U1")).code == 0
    assert (await many.heartbeat("m2")).code == codes.SYSTEM_BUSY
    assert door.snapshot().refused_producers == {"identity": 2}


async def test_the_groups_of_all_connections_together_are_bounded(stage: Stage) -> None:
    door = await stage.open(limits={"producer_count_max": 3})
    first, second = await stage.client(door), await stage.client(door)
    assert (await first.heartbeat("a", "b")).code == 0
    refused = await second.heartbeat("a", "b")
    assert refused.code == codes.SYSTEM_BUSY
    assert "the door has 3 places" in (refused.remark or "")
    assert [link.producer_group for link in stage.desk.links] == ["a", "b", "a"]
    await first.unregister("a")
    await second.heartbeat("b")
    assert [link.producer_group for link in stage.desk.links] == ["b", "a", "b"]


async def test_a_client_with_far_too_many_groups_does_not_fill_the_log_either(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    client = await stage.client(await stage.open(limits={"group_count_max": 2}))
    refused = await client.heartbeat(*(f"g{n}" for n in range(50)))
    assert refused.code == codes.SYSTEM_BUSY
    assert "answers for 2 groups already" in (refused.remark or "")
    assert [link.producer_group for link in stage.desk.links] == ["g0", "g1"]
    assert len([text for text in caplog.messages if "gets no checks over" in text]) == 10
    assert stage.doors[0].snapshot().refused_producers == {"connection": 48}
