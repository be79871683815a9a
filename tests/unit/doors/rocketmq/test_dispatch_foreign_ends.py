"""An end over the RocketMQ door belongs to whoever was answered there; all others are refused.

Each attack uses bytes that any client can send, and knows all that is no secret: groups, ids, half
partitions, half offsets. Before there were seals each of them decided.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from halfhitch.access import Access, Right
from halfhitch.core.model import ProducerGroup, TransactionId
from halfhitch.doors.rocketmq.offsets import commit_log_offset
from halfhitch.errors import TransactionReused
from halfhitch.service.api import OutgoingMessage
from halfhitch.wire.check import Check, CheckMessage
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.requests import Form
from harness.coordinator import KEYS, PARTITION_COUNT, Coordinator
from harness.identities import identity
from harness.remoting_client import Sent

if TYPE_CHECKING:
    from conftest import Stage
    from harness.remoting_client import RemotingClient

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
GROUP, TOPIC = "shop", "orders"


def named(unique: str, partition: int, half_offset: int, state: int | None = None) -> Sent:
    """As if a message had been answered so; by default as every release before sealed nothing."""
    position = commit_log_offset(partition, half_offset)
    fields = {
        "msgId": f"7F00000100002694{position:016X}",
        "queueOffset": str(half_offset if state is None else state),
        "transactionId": unique,
    }
    return Sent(0, None, fields)


async def refused(stage: Stage, client: RemotingClient, forged: Sent, group: str = GROUP) -> None:
    """Whoever waits is told so, and nothing is decided."""
    for decision in (ROLLBACK, COMMIT, UNKNOWN):
        for asked in ("false", "true"):
            more = {"fromTransactionCheck": asked}
            answer = await client.end_sync(group, forged, decision, **more)
            assert answer.code == codes.SYSTEM_ERROR
            assert "as the answer to the message, or the check, gave them" in (answer.remark or "")
            client.end(group, forged, decision, **more)
    assert (await client.heartbeat("another")).code == 0  # behind all of them
    assert stage.it.decided() == []
    assert stage.desk.settled == []


async def prepared_elsewhere(stage: Stage, unique: str) -> tuple[int, int]:
    """Not over this door: half partition and half offset."""
    message = OutgoingMessage(TOPIC, b"k", b"mine", [])
    prepared = await stage.it.service.prepare(
        producer_group=GROUP, messages=[message], transaction_id=unique
    )
    return prepared.partition, prepared.half_offsets[0]


@pytest.mark.parametrize("form", list(Form))
async def test_group_and_id_rolled_back_what_was_prepared_over_http(
    stage: Stage, form: Form
) -> None:
    client = await stage.client(await stage.open(), form=form)
    partition, half_offset = await prepared_elsewhere(stage, "order-777")
    for guessed in range(PARTITION_COUNT):
        await refused(stage, client, named("order-777", guessed, 0))
    await refused(stage, client, named("order-777", partition, half_offset))


async def test_the_numbers_of_a_half_were_no_secret(stage: Stage, client: RemotingClient) -> None:
    """They are counted upwards, and whoever may read the half topic sees them."""
    sent = await client.half(GROUP, TOPIC, b"mine", unique="U1")
    position = sent.commit_log_offset
    for guessed in range(-1, 3):
        await refused(stage, client, named("U1", position >> 48, position & 0xFFFF, guessed))
    await refused(stage, client, named("U1", position >> 48, position & 0xFFFF, 2**63 - 1))
    assert (await client.end_sync(GROUP, sent, COMMIT)).code == codes.SUCCESS


async def test_a_seal_cannot_be_moved(stage: Stage, client: RemotingClient) -> None:
    """One's own numbers, of a message that is being answered for, end no other transaction."""
    partition, half_offset = await prepared_elsewhere(stage, "order-777")
    own = await client.half(GROUP, TOPIC, b"x", unique="U9")
    other = await client.half("bank", TOPIC, b"x", unique="order-777")
    await refused(stage, client, named("order-777", partition, half_offset, own.state_offset))
    await refused(stage, client, named("order-777", partition, half_offset, other.state_offset))
    await refused(stage, client, replace(own, fields={**own.fields, "transactionId": "order-777"}))
    await refused(stage, client, other)
    await refused(stage, client, own, "bank")
    moved = f"{own.fields['msgId'][:-1]}{(int(own.fields['msgId'][-1], 16) ^ 1):X}"
    await refused(stage, client, replace(own, fields={**own.fields, "msgId": moved}))
    last = PARTITION_COUNT - 1 - (own.commit_log_offset >> 48)
    await refused(stage, client, named("U9", last, 0, own.state_offset))


async def test_the_answer_to_a_plain_message_is_no_way_to_end_one(
    stage: Stage, client: RemotingClient
) -> None:
    await prepared_elsewhere(stage, "order-777")
    sent = await client.put(GROUP, TOPIC, b"plain", unique="order-777")
    await refused(stage, client, sent)


async def test_a_repeat_with_other_content_gives_no_numbers_to_end_the_first_with(
    stage: Stage, client: RemotingClient
) -> None:
    """Whichever door the first one came over; one with the very same content is the same."""
    sent = await client.half(GROUP, TOPIC, b"mine", unique="U1")
    stage.it.carry_out()
    again = await client.half(GROUP, TOPIC, b"theirs", unique="U1")
    assert (again.code, again.fields) == (codes.MESSAGE_ILLEGAL, {})
    with pytest.raises(TransactionReused):
        await stage.it.service.prepare(
            producer_group=GROUP,
            messages=[OutgoingMessage(TOPIC, None, b"theirs", [])],
            transaction_id="U1",
        )
    assert (await client.end_sync(GROUP, sent, COMMIT)).code == codes.SUCCESS
    stage.it.carry_out()
    assert [record.value() for record in stage.stored()] == [b"mine"]


async def another(stage: Stage, *keys: bytes) -> RemotingClient:
    """A client of another instance, which owns nothing."""
    stage.it = Coordinator(stage.it.twin, keys=keys, owns=())
    return await stage.client(await stage.open())


async def test_another_instance_takes_the_end_and_so_does_one_that_was_started_anew(
    stage: Stage, client: RemotingClient
) -> None:
    sent = await client.half(GROUP, TOPIC, b"mine", unique="U1")
    other = await another(stage, *KEYS)
    await refused(stage, other, named("U1", sent.commit_log_offset >> 48, 0))
    other.end(GROUP, sent, COMMIT)
    await stage.until(stage.it.decided, "the decision")


async def test_a_key_that_is_being_changed_refuses_none_that_is_out(
    stage: Stage, client: RemotingClient
) -> None:
    sent = await client.half(GROUP, TOPIC, b"mine", unique="U1")
    new = b"n" * 16
    await refused(stage, await another(stage, new), sent)
    changing = await another(stage, new, *KEYS)
    changing.end(GROUP, sent, COMMIT)
    await stage.until(stage.it.decided, "the decision")


async def test_the_numbers_of_another_installation_are_refused(
    stage: Stage, client: RemotingClient
) -> None:
    stage.it.handles.bind("staging.")
    sent = await client.half(GROUP, TOPIC, b"mine", unique="U1")
    stage.it.handles.bind("production.")
    await refused(stage, client, sent)


async def test_before_kafka_was_reached_it_is_not_known_whose_numbers_these_are(
    stage: Stage, client: RemotingClient
) -> None:
    sent = await client.half(GROUP, TOPIC, b"mine", unique="U1")
    stage.it.handles._seals = None
    answer = await client.end_sync(GROUP, sent, COMMIT)
    assert answer.code == codes.SYSTEM_BUSY
    assert stage.it.decided() == []


async def test_a_message_of_the_release_before_is_ended_by_its_check(
    stage: Stage, client: RemotingClient
) -> None:
    """Its numbers were not sealed; the check that asks about it brings some that are."""
    partition, half_offset = await prepared_elsewhere(stage, "U1")
    await refused(stage, client, named("U1", partition, half_offset))
    await client.heartbeat(GROUP)
    (link,) = [link for link in stage.desk.links if link.producer_group == GROUP]
    identity = ProducerGroup(GROUP), TransactionId("U1")
    message = CheckMessage(TOPIC, b"k", b"mine", [], None)
    assert link.offer(
        Check(partition, identity, 1, 15, "", 0, "i", (message,), half_offsets=(half_offset,))
    )
    question, _ = await client.next_check()
    client.end(GROUP, question, COMMIT)
    await stage.until(stage.it.decided, "the decision")
    stage.it.carry_out()
    assert [record.value() for record in stage.stored()] == [b"mine"]


async def test_an_end_that_is_made_up_is_counted_and_told_with_what_to_do(
    stage: Stage, client: RemotingClient, caplog: pytest.LogCaptureFixture
) -> None:
    forged = named("U1\x1b[2J\n", 0, 0)
    client.end(GROUP, forged, ROLLBACK)
    door = stage.doors[0]
    await stage.until(lambda: door.snapshot().failed_one_way_ends == {"foreign_end": 1}, "a count")
    (line,) = [one for one in caplog.messages if "is refused" in one]
    assert "for transaction 'U1\\x1b[2J\\n' of group 'shop'" in line
    assert "of RocketMQ client 127.0.0.1:" in line
    assert "make all instances alike" in line


async def test_thousands_that_are_made_up_do_not_fill_the_log(
    stage: Stage, client: RemotingClient, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(500):
        client.end(GROUP, named(f"U{number}", 0, number), ROLLBACK)
    door = stage.doors[0]
    wanted = {"foreign_end": 500}
    await stage.until(lambda: door.snapshot().failed_one_way_ends == wanted, "all counted")
    door._look()  # what the sweep says
    assert 0 < len(caplog.messages) <= 10


async def test_who_has_no_right_for_the_group_learns_nothing_of_its_numbers(stage: Stage) -> None:
    only = identity("a", "t", Right.PRODUCE, groups=("bank",), topics=("orders",), keys=("a",))
    door = await stage.open(access_secrets={"a": "s" * 8}, access=Access(identities=[only]))
    client = await stage.client(door, access_key="a", secret_key="s" * 8)
    partition, half_offset = await prepared_elsewhere(stage, "U1")
    seals = stage.it.handles.seals
    right = seals.make(partition, half_offset, GROUP, "U1")
    for state in (0, right):
        answer = await client.end_sync(GROUP, named("U1", partition, half_offset, state), COMMIT)
        assert answer.code == codes.NO_PERMISSION
