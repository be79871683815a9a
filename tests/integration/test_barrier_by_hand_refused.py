"""`record` by hand that raises, in a producer's block that goes on all the same.

Its word was missing then, and the block took its local transaction for ended.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.barrier import TransactionRecordedTwice
from halfhitch.client import LocalTransactionState, Message, TransactionMisused
from halfhitch.errors import RequestError
from harness.by_hand import ends_of, talking
from harness.databases import ERRORS, WAYS, PlainShop
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


def opened(shop: Any) -> Any:
    return closing(shop.connect()) if isinstance(shop, PlainShop) else shop.session()


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
    with shop.begin() as before:
        before.record("done-before")
        before.commit()
    refusal = pytest.raises(
        TransactionMisused, match="an earlier attempt of transaction done-before has"
    )
    with talking(shop, server) as producer, shop.begin() as local, refusal:
        swallows(producer, local, "done-before")
    assert (ends_of(server), truth.rows()) == ([], {"done-before": "committed"})


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
