"""A barrier's block with something done in it, on every database and driver."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from halfhitch.errors import InvalidRequest
from harness.barriers import RecordingProducer
from harness.databases import WAYS
from harness.producers import Blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    Body = Callable[[Any], object]


def each(style: str, *servers: str) -> pytest.MarkDecorator:
    """The ways of this style: `alchemy` is SQLAlchemy's, blocking and asyncio's."""
    found = [
        way
        for way in WAYS
        if (way.style == "plain") == (style == "plain") and (not servers or way.server in servers)
    ]
    return pytest.mark.parametrize("way", found, ids=str)


def in_block(shop: Any, body: Body, *, given: Body | None = None) -> RecordingProducer:
    """Runs `body` with the block's session, or plain connection; `given`: before, outside of it.

    The session is the blocking one for asyncio too.
    """
    producer = RecordingProducer("a")
    with ExitStack() as opened:
        options = {}
        if given is not None:
            session = opened.enter_context(shop.session())
            run(session, given)
            options["session"] = getattr(session, "inner", session)
        block = shop.barrier().transaction(producer, **options)
        _, local = opened.enter_context(block)
        run(local, body)
    return producer


def run(local: Any, body: Body) -> None:
    """Asyncio's session has a blocking one inside, for a greenlet of its own."""
    if isinstance(local, Blocking):
        local.run_sync(body)
    else:
        body(local)


def refused(
    shop: Any, body: Body, words: str, *, messages: str = "rollback", **options: Any
) -> None:
    """The block is, and its messages were ended so."""
    made: list[Any] = []
    transaction = RecordingProducer.transaction

    def remember(self: Any, *arguments: Any, **others: Any) -> Any:
        found = transaction(self, *arguments, **others)
        made.append(self.made[-1])
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordingProducer, "transaction", remember)
        with pytest.raises(InvalidRequest, match=words):
            in_block(shop, body, **options)
    assert [one.ends for one in made] == [[messages]]


def order(local: Any, name: str) -> None:
    """One row of the shop's."""
    statement = f"INSERT INTO shop_orders (id) VALUES ('{name}')"
    if isinstance(local, Session):
        local.execute(text(statement))
    else:
        local.cursor().execute(statement)
