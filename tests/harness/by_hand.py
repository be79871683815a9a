"""A producer's block in which a barrier's `record` is called by hand, and what its server heard."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from halfhitch.client import AsyncTransactionProducer, TransactionProducer
from harness.barriers import GROUP
from harness.databases import AsyncShop, PlainShop
from harness.producers import Blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.scripted_http import ScriptedServer


@contextmanager
def talking(shop: Any, server: ScriptedServer, **options: Any) -> Iterator[Any]:
    """A producer of the shop's kind."""
    options = {"answers_checks": False, **options}
    made: Any = TransactionProducer(GROUP, server.address, **options)
    if isinstance(shop, AsyncShop):
        made = Blocking(AsyncTransactionProducer(GROUP, server.address, **options), shop._loop)
    with made as producer:
        yield producer


def opened(shop: Any) -> Any:
    """A connection of a plain shop's driver, else a session."""
    return closing(shop.connect()) if isinstance(shop, PlainShop) else shop.session()


@contextmanager
def connected(shop: Any) -> Iterator[Any]:
    """A connection of SQLAlchemy's."""
    if isinstance(shop, AsyncShop):
        opened: Any = Blocking(shop.async_engine.connect(), shop._loop)
    else:
        opened = shop.engine.connect()
    with opened as local:
        yield local


def ends_of(server: ScriptedServer) -> list[str]:
    """The commits and rollbacks that were sent."""
    said = [target.partition("?")[0].rpartition("/")[2] for target in server.targets()]
    return [word for word in said if word in ("commit", "rollback")]
