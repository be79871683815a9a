"""Who may do what on the RocketMQ door: each request by its own team, by a neighbour, by nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.access import Access, Right
from halfhitch.core.model import ProducerGroup, TransactionId
from halfhitch.doors.rocketmq import access as access_module
from halfhitch.service.checking.api import CheckOutcome
from halfhitch.wire.check import Check, CheckMessage
from halfhitch.wire.remoting import codes
from harness.identities import access, bank, everybody, identity, shop

if TYPE_CHECKING:
    from conftest import Stage

SECRETS = {"shop-key": "shop-secret", "bank-key": "bank-secret", "nobodys": "some-secret"}
NO_PERMISSION = codes.NO_PERMISSION


def a_check() -> Check:
    identity = ProducerGroup("shop"), TransactionId("U1")
    message = CheckMessage("orders", b"k", b"body", [])
    return Check(1, identity, 3, 15, "", 6_000, "i", [message], half_offsets=(7,))


class Two:
    """A door, and two teams at it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.access = access()
        self.shop: Any = None
        self.bank: Any = None

    async def open(self, **options: Any) -> None:
        door = await self.stage.open(access_secrets=SECRETS, access=self.access, **options)
        self.door = door
        self.shop, self.bank = await self.client("shop"), await self.client("bank")

    async def client(self, team: str) -> Any:
        key = f"{team}-key"
        return await self.stage.client(self.door, access_key=key, secret_key=SECRETS[key])


@pytest.fixture
async def two(stage: Stage) -> Two:
    found = Two(stage)
    found.stage.kafka.create_topic("payments", 4)
    await found.open()
    return found


def forbidden(remark: str | None, *words: str) -> None:
    assert remark is not None
    assert remark.startswith("forbidden: identity ")
    assert all(word in remark for word in words), remark


# -- messages ------------------------------------------------------------------------------------


async def test_a_team_sends_to_its_topics_for_its_groups_and_nowhere_else(two: Two) -> None:
    assert (await two.shop.half("shop", "orders", b"x", unique="U1")).code == codes.SUCCESS
    assert (await two.shop.put("shop", "orders", b"x")).code == codes.SUCCESS
    for put in (two.bank.half, two.bank.put):
        for code in (codes.SEND_MESSAGE, codes.SEND_MESSAGE_V2):
            sent = await put("shop", "payments", b"x", unique="U2", code=code)
            assert sent.code == NO_PERMISSION
            forbidden(sent.remark, "'bank'", "'produce'", "'shop'")
            sent = await put("bank", "orders", b"x", unique="U3", code=code)
            assert sent.code == NO_PERMISSION
            forbidden(sent.remark, "'bank'", "topic 'orders'")
    assert len(two.stage.stored("orders")) == 1
    assert len(two.stage.stored("payments")) == 0


async def test_a_batch_is_asked_for_too(two: Two) -> None:
    rest = bytes(12) + (1).to_bytes(4, "big") + b"a" + bytes(2)
    batch = (len(rest) + 4).to_bytes(4, "big") + rest
    for client, code in ((two.bank, NO_PERMISSION), (two.shop, codes.SUCCESS)):
        for group in ("bank", "shop"):
            named = {"code": codes.SEND_BATCH_MESSAGE, "m": "true"}
            sent = await client.put(group, "orders", batch, **named)
            assert sent.code == (code if group == "shop" else NO_PERMISSION), sent.remark
    assert len(two.stage.stored("orders")) == 1


async def test_a_namespace_is_part_of_the_group(two: Two) -> None:
    """`ns%shop` is another group than `shop`."""
    sent = await two.shop.half("ns%shop", "orders", b"x", unique="U1")
    assert sent.code == NO_PERMISSION
    forbidden(sent.remark, "'ns%shop'")


async def test_a_refused_half_registers_nobody(two: Two) -> None:
    await two.bank.half("shop", "orders", b"x", unique="U1")
    assert two.stage.desk.links == []


# -- ends ----------------------------------------------------------------------------------------


async def test_a_neighbour_ends_nothing_of_another_team(two: Two) -> None:
    """Group, id and offset 0 were enough to roll back anybody's transaction, without anything."""
    sent = await two.shop.half("shop", "orders", b"x", unique="U1")
    for decision in (8, 12, 0):
        answer = await two.bank.end_sync("shop", sent, decision)
        assert answer.code == NO_PERMISSION
        forbidden(answer.remark, "'bank'", "'produce'", "'shop'")
        asked = {"fromTransactionCheck": "true"}
        answer = await two.bank.end_sync("shop", sent, decision, **asked)
        forbidden(answer.remark, "'bank'", "'check'", "'shop'")
        two.bank.end("shop", sent, decision)
    assert two.stage.desk.settled == []
    answer = await two.shop.end_sync("shop", sent, 8)
    assert answer.code == codes.SUCCESS, answer.remark


async def test_under_its_own_group_a_neighbour_names_no_transaction_of_another(two: Two) -> None:
    sent = await two.shop.half("shop", "orders", b"x", unique="U1")
    await two.bank.end_sync("bank", sent, 12)
    assert (await two.shop.end_sync("shop", sent, 8)).code == codes.SUCCESS


async def test_an_answer_to_a_check_needs_the_right_to_answer(stage: Stage) -> None:
    only = identity("a", "t", Right.PRODUCE, groups=("shop",), topics=("orders",), keys=("a",))
    door = await stage.open(access_secrets={"a": "s" * 8}, access=Access(identities=[only]))
    client = await stage.client(door, access_key="a", secret_key="s" * 8)
    sent = await client.half("shop", "orders", b"x", unique="U1")
    assert stage.desk.links == [], "who may not answer is not asked"
    asked = {"fromTransactionCheck": "true"}
    assert (await client.end_sync("shop", sent, 0, **asked)).code == NO_PERMISSION
    assert stage.desk.settled == []
    assert (await client.end_sync("shop", sent, 8)).code == codes.SUCCESS


async def test_an_unknown_of_its_own_team_settles_the_check(two: Two) -> None:
    sent = await two.shop.half("shop", "orders", b"x", unique="U1")
    asked = {"fromTransactionCheck": "true"}
    assert (await two.shop.end_sync("shop", sent, 0, **asked)).code == codes.SUCCESS
    assert [outcome for _, outcome in two.stage.desk.settled] == [CheckOutcome.UNKNOWN]


# -- who is there --------------------------------------------------------------------------------


async def test_a_heartbeat_makes_nobody_a_producer_of_another_team(two: Two) -> None:
    """It got the next check of the group: the half message of somebody else, in clear."""
    answer = await two.bank.heartbeat("bank", "shop")
    assert answer.code == NO_PERMISSION
    forbidden(answer.remark, "'bank'", "'shop'")
    assert [link.producer_group for link in two.stage.desk.links] == ["bank"]


async def test_who_may_send_but_not_answer_beats_without_being_asked(stage: Stage) -> None:
    only = identity("a", "t", Right.PRODUCE, groups=("shop",), topics=("orders",), keys=("a",))
    door = await stage.open(access_secrets={"a": "s" * 8}, access=Access(identities=[only]))
    client = await stage.client(door, access_key="a", secret_key="s" * 8)
    assert (await client.heartbeat("shop")).code == codes.SUCCESS
    assert stage.desk.links == []


async def test_a_producer_whose_right_is_gone_is_asked_no_more(two: Two) -> None:
    await two.shop.heartbeat("shop")
    [link] = two.stage.desk.links
    two.access.replace([shop(groups=("other",)), bank()])
    assert not link.offer(a_check())
    await two.stage.until(lambda: two.stage.desk.links == [], "the group is let go")
    assert (await two.shop.half("shop", "orders", b"x", unique="U1")).code == NO_PERMISSION


async def test_a_producer_whose_right_stays_is_asked_on(two: Two) -> None:
    await two.shop.heartbeat("shop")
    [link] = two.stage.desk.links
    two.access.replace(everybody())
    assert link.offer(a_check())


# -- topics --------------------------------------------------------------------------------------


async def test_topics_of_others_are_neither_shown_nor_made(stage: Stage) -> None:
    two = Two(stage)
    stage.kafka.create_topic("payments", 4)
    await two.open(create_topics=True)
    assert (await two.shop.route("orders"))[0] == codes.SUCCESS
    code, said = await two.bank.route("orders")
    assert code == NO_PERMISSION
    forbidden(said["remark"], "'bank'", "topic 'orders'")
    assert (await two.bank.route("evil"))[0] == NO_PERMISSION
    made = await two.bank.ask(codes.UPDATE_AND_CREATE_TOPIC, {"topic": "evil"})
    assert made.code == NO_PERMISSION
    end = await two.bank.ask(codes.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"})
    assert end.code == NO_PERMISSION
    listed = await two.bank.ask(codes.GET_ALL_TOPIC_LIST_FROM_NAME_SERVER)
    assert b"payments" in listed.body
    assert b"orders" not in listed.body


# -- who it is -----------------------------------------------------------------------------------


async def test_a_key_of_no_identity_and_no_key_at_all_open_nothing(two: Two) -> None:
    unsigned = await two.stage.client(two.door)
    stranger = await two.stage.client(two.door, access_key="nobodys", secret_key="some-secret")
    forger = await two.stage.client(two.door, access_key="shop-key", secret_key="guess")
    for client, words in (
        (unsigned, "asks for a signature"),
        (stranger, "belongs to no identity"),
        (forger, "signature is wrong"),
    ):
        for answer in (
            await client.half("shop", "orders", b"x", unique="U1"),
            await client.heartbeat("shop"),
            await client.unregister("shop"),
            await client.ask(codes.GET_BROKER_CLUSTER_INFO),
            await client.ask(codes.GET_ALL_TOPIC_LIST_FROM_NAME_SERVER),
        ):
            assert answer.code == NO_PERMISSION
            assert words in (answer.remark or "")
    assert two.stage.desk.links == []
    assert two.access.numbers().unauthorized == {"rocketmq": 15}


async def test_with_identities_and_no_access_key_at_all_nothing_is_open(stage: Stage) -> None:
    door = await stage.open(access=access())
    client = await stage.client(door)
    assert (await client.half("shop", "orders", b"x", unique="U1")).code == NO_PERMISSION
    assert (await client.heartbeat("shop")).code == NO_PERMISSION


async def test_strangers_are_told_in_the_log_and_do_not_fill_it(
    two: Two, caplog: pytest.LogCaptureFixture
) -> None:
    client = await two.stage.client(two.door, access_key="nobodys", secret_key="some-secret")
    for _ in range(30):
        await client.heartbeat("shop")
    lines = [record for record in caplog.records if record.name == access_module.__name__]
    assert len(lines) == 10
    assert "belongs to no identity" in lines[0].message


async def test_a_key_that_is_taken_away_leaves_no_producer_behind(two: Two) -> None:
    assert (await two.shop.heartbeat("shop")).code == 0
    assert (await two.bank.heartbeat("bank")).code == 0
    two.door.replace_access_secrets({"bank-key": SECRETS["bank-key"]})
    [shop] = [link for link in two.stage.desk.links if link.producer_group == "shop"]
    assert not shop.offer(a_check())
    await two.stage.until(lambda: len(two.stage.desk.links) == 1, "its producer to be let go")
    assert (await two.shop.heartbeat("shop")).code == NO_PERMISSION
    assert (await two.bank.heartbeat("bank")).code == 0
