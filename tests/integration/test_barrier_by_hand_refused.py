"""`record` by hand that raises, in a producer's block that goes on all the same.

Its word was missing then, and the block took its local transaction for ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.barrier import TransactionRecordedTwice
from halfhitch.client import LocalTransactionState, Message, TransactionMisused
from halfhitch.client.calls import new_transaction_id
from halfhitch.errors import RequestError
from harness.by_hand import ends_of, opened, talking
from harness.databases import ERRORS, WAYS
from harness.scripted_http import ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.databases import Shop, Truth

SERVERS = ("sqlite", "postgresql", "mariadb")
ON_ALL = pytest.mark.parametrize("way", [way for way in WAYS if way.server in SERVERS], ids=str)
ROLLBACK = LocalTransactionState.ROLLBACK
SWALLOWED = r"`record` of transaction a has raised .* swallowed.*Nothing was sent"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as made:
        yield made


def refused(local: Any, transaction_id: str) -> None:
    """Swallowed."""
    local.order("of a refused one")
    with pytest.raises(RequestError):
        local.record(transaction_id)
    local.rollback()


def swallows(producer: Any, local: Any, transaction_id: str = "a") -> None:
    with producer.transaction(transaction_id) as tx:
        tx.send("orders", b"a")
        refused(local, tx.id)


@ON_ALL
def test_messages_followed_a_record_that_was_refused_by_a_fence_and_swallowed(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    assert shop.check("a") is ROLLBACK
    refusal = pytest.raises(TransactionMisused, match=SWALLOWED)
    with talking(shop, server) as producer, shop.begin() as local, refusal:
        swallows(producer, local)
    assert (ends_of(server), truth.orders()) == ([], set())


@ON_ALL
def test_a_part_of_an_earlier_attempt_s_messages_was_committed_behind_a_refused_record(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    """The check-back commits them all."""
    done = new_transaction_id()  # of which nobody in this process knows
    with shop.begin() as before:
        before.record(done)
        before.commit()
    refusal = pytest.raises(TransactionMisused, match=r"an earlier attempt of transaction .* has")
    with talking(shop, server) as producer, shop.begin() as local, refusal:
        swallows(producer, local, done)
    assert (ends_of(server), truth.rows()) == ([], {done: "committed"})


def records_nowhere(shop: Any, producer: Any, local: Any) -> None:
    with producer.transaction("a") as tx:
        tx.send("orders", b"a")
        with pytest.raises(ERRORS):
            shop.barrier(table="nowhere").record(local, tx.id)


@ON_ALL
def test_messages_followed_a_record_without_its_table(
    shop: Any, truth: Truth, server: ScriptedServer
) -> None:
    """Nor could that be read, so nobody knows of an earlier attempt."""
    refusal = pytest.raises(TransactionMisused, match=SWALLOWED)
    with talking(shop, server) as producer, opened(shop) as local, refusal:
        records_nowhere(shop, producer, local)
    assert (ends_of(server), truth.rows()) == ([], {})


@ON_ALL
def test_a_record_that_succeeds_behind_a_refused_one_is_followed(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    with talking(shop, server) as producer, shop.begin() as local, producer.transaction("a") as tx:
        tx.send("orders", b"a")
        with pytest.raises((RequestError, AttributeError)):
            shop.barrier().record(None, tx.id)
        local.order("a")
        local.record(tx.id)
        local.commit()
    assert (ends_of(server), truth.orders()) == (["commit"], {"a"})


@ON_ALL
def test_what_was_prepared_followed_a_record_that_was_refused(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    assert shop.check("a") is ROLLBACK
    with talking(shop, server) as producer, shop.begin() as local:
        prepared = producer.prepare([Message("orders", b"a")], "a")
        refused(local, prepared.transaction_id)
        with pytest.raises(TransactionMisused, match=SWALLOWED):
            producer.commit(prepared.handle)
    assert (ends_of(server), truth.orders()) == ([], set())


@ON_ALL
def test_an_attempt_that_was_refused_speaks_for_no_other_that_has_committed(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    """Both are of one id, in one process, and share their word."""
    with talking(shop, server) as producer, shop.begin() as local, shop.begin() as late:
        tx = producer.transaction("a")
        tx.send("orders", b"a")
        local.order("a")
        local.record(tx.id)
        local.commit()
        with pytest.raises(TransactionRecordedTwice):
            late.record(tx.id)
        tx.commit()
    assert (ends_of(server), truth.orders()) == (["commit"], {"a"})


# -- rolled back, although a record stands -------------------------------------------------------

COMMITTED = "whose record is committed"


def tries_again(producer: Any, local: Any, transaction_id: str) -> None:
    with producer.transaction(transaction_id) as tx:
        tx.send("orders", b"a")
        local.record(tx.id)


@ON_ALL
def test_a_retry_behind_an_attempt_that_had_committed_rolled_its_messages_back(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    """The first one died before its messages' commit; the retry is refused, and says so."""
    done = new_transaction_id()
    with shop.begin() as before:
        before.record(done)
        before.commit()
    refusal = pytest.raises(TransactionRecordedTwice, match="never rolled back")
    with talking(shop, server, on_error="rollback") as producer, shop.begin() as local:
        with refusal as refused:
            tries_again(producer, local, done)
        assert any("undecided" in note for note in refused.value.__notes__)
    assert (ends_of(server), truth.rows()) == ([], {done: "committed"})


@ON_ALL
def test_a_fenced_retry_rolls_its_messages_back(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    assert shop.check("a") is ROLLBACK
    with talking(shop, server) as producer, shop.begin() as local, pytest.raises(RequestError):
        tries_again(producer, local, "a")
    assert (ends_of(server), truth.rows()) == (["rollback"], {"a": "fenced"})


def commits(local: Any, transaction_id: str | None) -> None:
    local.order("a")
    local.record(transaction_id)
    local.commit()


def fails_behind_its_commit(producer: Any, local: Any, how: str) -> None:
    with producer.transaction("a") as tx:
        tx.send("orders", b"a")
        commits(local, tx.id)
        if how == "tx.rollback":
            tx.rollback()
        if how == "producer.rollback":
            producer.rollback(tx.handle)
        raise OSError("metrics are away")


@ON_ALL
@pytest.mark.parametrize("how", ["tx.rollback", "producer.rollback", "on_error"])
def test_messages_were_rolled_back_behind_the_local_commit(
    shop: Shop, truth: Truth, server: ScriptedServer, how: str
) -> None:
    kind: Any = OSError if how == "on_error" else TransactionMisused
    with talking(shop, server) as producer, shop.begin() as local:
        with pytest.raises(kind, match="away" if how == "on_error" else COMMITTED) as refused:
            fails_behind_its_commit(producer, local, how)
        assert any("undecided" in note for note in refused.value.__notes__)
    assert (ends_of(server), truth.orders()) == ([], {"a"})
    assert shop.check("a") is LocalTransactionState.COMMIT


@ON_ALL
def test_what_was_prepared_was_rolled_back_behind_the_local_commit(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    with talking(shop, server) as producer, shop.begin() as local:
        prepared = producer.prepare([Message("orders", b"a")])
        commits(local, prepared.transaction_id)
        with pytest.raises(TransactionMisused, match=COMMITTED):
            producer.rollback(prepared.handle)
        producer.commit(prepared.handle)
    assert (ends_of(server), truth.orders()) == (["commit"], {"a"})


class CatchesAll:
    """A listener whose last line fails."""

    def __init__(self, local: Any) -> None:
        self.local = local

    def execute_local_transaction(self, message: Message, _: Any) -> LocalTransactionState:
        commits(self.local, message.transaction_id)
        return ROLLBACK


@pytest.mark.parametrize(
    "way", [way for way in WAYS if way.server in SERVERS and way.style != "asyncio"], ids=str
)
def test_a_listener_s_rollback_behind_its_local_commit_lost_the_message(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    with shop.begin() as local, talking(shop, server, listener=CatchesAll(local)) as producer:
        result = producer.send_message_in_transaction(Message("orders", b"a"))
    assert result.state is LocalTransactionState.UNKNOWN
    assert isinstance(result.error, TransactionMisused)
    assert (ends_of(server), truth.orders()) == ([], {"a"})
