"""`record` by hand that raises, in a producer's block that goes on all the same.

Its word was missing then, and the block took its local transaction for ended.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.barrier import TransactionRecordedTwice
from halfhitch.client import LocalTransactionState, Message, TransactionMisused
from halfhitch.client.calls import new_transaction_id
from halfhitch.errors import RequestError
from harness.barriers import GROUP
from harness.by_hand import ends_of, opened, talking
from harness.databases import ERRORS, WAYS, PlainShop
from harness.scripted_http import ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.databases import Shop, Truth

SERVERS = ("sqlite", "postgresql", "mariadb")
ON_ALL = pytest.mark.parametrize("way", [way for way in WAYS if way.server in SERVERS], ids=str)
ROLLBACK = LocalTransactionState.ROLLBACK
EITHER = "by an earlier attempt or by this one"
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
    refusal = pytest.raises(TransactionMisused, match=EITHER)
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
    """It is known whose record stands, except of a plain connection's."""
    is_known = not isinstance(shop, PlainShop)
    with talking(shop, server) as producer, shop.begin() as local, shop.begin() as late:
        tx = producer.transaction(new_transaction_id())
        tx.send("orders", b"a")
        commits(local, tx.id)
        with pytest.raises(TransactionRecordedTwice):
            late.record(tx.id)
        with nullcontext() if is_known else pytest.raises(TransactionMisused, match=EITHER):
            tx.commit()
    assert (ends_of(server), truth.orders()) == (["commit"] * is_known, {"a"})


def is_refused_and_goes_on(producer: Any, local: Any) -> None:
    with producer.transaction("a") as tx:
        tx.send("orders", b"a")
        with pytest.raises(TransactionRecordedTwice):
            local.record(tx.id)


@ON_ALL
def test_a_retry_in_the_same_process_committed_a_part_behind_a_swallowed_refusal(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    """The first attempt is still alive, in a loop's variable or in a traceback."""
    with talking(shop, server) as producer, shop.begin() as local, shop.begin() as late:
        with pytest.raises(OSError, match="away") as kept:
            fails_behind_its_commit(producer, local, "on_error")
        with pytest.raises(TransactionMisused, match=EITHER):
            is_refused_and_goes_on(producer, late)
        assert "tx" in kept.traceback[-1].frame.f_locals
    assert (ends_of(server), truth.orders()) == ([], {"a"})


@ON_ALL
def test_a_part_was_prepared_again_and_committed_behind_a_swallowed_refusal(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    with talking(shop, server) as producer, shop.begin() as local, shop.begin() as late:
        first = producer.prepare([Message("orders", b"a")], "a")
        producer.add(first.handle, [Message("orders", b"b")])
        commits(local, "a")
        again = producer.prepare([Message("orders", b"a")], "a")
        with pytest.raises(TransactionRecordedTwice):
            late.record("a")
        with pytest.raises(TransactionMisused, match=EITHER):
            producer.commit(again.handle)
    assert (ends_of(server), truth.orders()) == ([], {"a"})


def is_overtaken(producer: Any, local: Any, truth: Truth, *, records_again: bool) -> None:
    """A deadlock say, and another process with the same id is faster."""
    with producer.transaction("a") as tx:
        tx.send("orders", b"a")
        local.order("a")
        local.record(tx.id)
        local.rollback()
        columns = "producer_group, transaction_id, outcome"
        truth.run(f"INSERT INTO halfhitch_barrier ({columns}) VALUES ('{GROUP}', 'a', 'committed')")
        if records_again:
            local.order("a")
            with pytest.raises(TransactionRecordedTwice):
                local.record(tx.id)


@ON_ALL
@pytest.mark.parametrize("records_again", [True, False])
def test_a_part_was_committed_for_an_attempt_of_another_process_behind_one_s_own_rollback(
    shop: Shop, truth: Truth, server: ScriptedServer, *, records_again: bool
) -> None:
    if isinstance(shop, PlainShop) and not records_again:
        pytest.skip("a plain driver tells nobody of a rollback: docs/barrier.md says so")
    refusal = pytest.raises(TransactionMisused, match=EITHER)
    with talking(shop, server) as producer, shop.begin() as local, refusal:
        is_overtaken(producer, local, truth, records_again=records_again)
    assert (ends_of(server), truth.orders()) == ([], set())


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
