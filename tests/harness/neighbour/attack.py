"""What an attack is, and what the attacker has to make it with.

An attack is an asynchronous generator: each thing that it yields is what one attempt was told. Who
runs it keeps to a pace between the attempts, and closes it when it is enough; what it holds open
ends with it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from halfhitch.wire.remoting import codes
from harness.raw_http import Client, json_post, request
from harness.remoting_client import RemotingClient, Sent

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    _Does = Callable[["Attacker"], AsyncGenerator[str]]

#: Tokens and secrets of the two, and of whoever looks after the coordinator.
SHOP, BANK, ROOT = "shop-team-shop-team", "bank-team-bank-team", "root-of-all-root-of-all"
SECRETS = {"shop-key": "shop-secret", "bank-key": "bank-secret"}
#: One address has its bound whoever comes from it; the victim's is 127.0.0.1.
ADDRESSES = ("127.0.0.2", "127.0.0.3", "127.0.0.4")

#: The words for codes of RocketMQ's protocol.
_WORDS = {
    codes.SUCCESS: "SUCCESS",
    codes.SYSTEM_ERROR: "SYSTEM_ERROR",
    codes.SYSTEM_BUSY: "SYSTEM_BUSY",
    codes.REQUEST_CODE_NOT_SUPPORTED: "NOT_SUPPORTED",
    codes.MESSAGE_ILLEGAL: "MESSAGE_ILLEGAL",
    codes.SERVICE_NOT_AVAILABLE: "SERVICE_NOT_AVAILABLE",
    codes.NO_PERMISSION: "NO_PERMISSION",
    codes.TOPIC_NOT_EXIST: "TOPIC_NOT_EXIST",
    codes.INVALID_PARAMETER: "INVALID_PARAMETER",
    codes.ILLEGAL_OPERATION: "ILLEGAL_OPERATION",
}
#: The connection was closed, or is held open and answers nothing.
CLOSED, SILENT, SENT = "closed", "silent", "sent"


@dataclass(frozen=True, slots=True)
class Attack:
    """One row of the table."""

    name: str
    door: str
    does: _Does
    #: What it must have been told before it is over.
    told: frozenset[str]
    #: What it may be told as well.
    also: frozenset[str] = frozenset()

    @property
    def name_and_door(self) -> str:
        """Names are told apart by their doors."""
        return f"{self.name} ({self.door})"


def row(name: str, door: str, *told: str, also: tuple[str, ...] = ()) -> Callable[[_Does], Attack]:
    """Makes an attack of what stands below it."""

    def attack(does: _Does) -> Attack:
        return Attack(name, door, does, frozenset(told), frozenset(also))

    return attack


def word(code: int) -> str:
    """Of an answer of the RocketMQ door."""
    return _WORDS.get(code, str(code))


@dataclass(slots=True)
class Known:
    """What the attacker knows of the victim: everything but what proves who it is."""

    group: str
    topic: str
    own_topic: str
    #: Of a transaction that is pending over HTTP, and of one over RocketMQ.
    handle: str
    transaction_id: str
    sent: dict[str, Any]
    #: The id that the victim will use next for such a transaction.
    next_id: str

    def rocketmq_half(self) -> Sent:
        return Sent(**self.sent)


@dataclass
class Attacker:
    """Its connections, by the address that they come from."""

    http_port: int
    admin_port: int
    rocketmq_port: int
    known: Known
    run: str
    stack: AsyncExitStack = field(default_factory=AsyncExitStack, init=False)

    def __post_init__(self) -> None:
        self._clients: dict[tuple[int, str], Client] = {}
        self._numbers = itertools.count()
        self._remoting: RemotingClient | None = None

    def name(self, prefix: str) -> str:
        """One that was never used."""
        return f"{prefix}-{self.run}-{next(self._numbers)}"

    # -- HTTP ------------------------------------------------------------------------------------

    async def dial(self, port: int, local: str = ADDRESSES[0]) -> Client:
        """A connection of its own, until the attack is over."""
        made = await asyncio.open_connection("127.0.0.1", port, local_addr=(local, 0))
        client = Client(*made)
        self.stack.push_async_callback(client.close)
        return client

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = BANK,
        admin: bool = False,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> str:
        """What was told, as status and code."""
        return (await self.answer(method, path, body, token=token, admin=admin, headers=headers))[0]

    async def answer(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = BANK,
        admin: bool = False,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> tuple[str, Any]:
        """That, and the JSON of a success."""
        all_headers = (("Half-Token", token), *headers)
        data = (
            request(method, path, all_headers)
            if body is None
            else json_post(path, body, *all_headers)
        )
        port = self.admin_port if admin else self.http_port
        client = self._clients.get((port, token))
        if client is None:
            client = self._clients[port, token] = await self.dial(port)
        try:
            found = await client.ask(data)
        except (AssertionError, OSError):
            del self._clients[port, token]
            return CLOSED, None
        if (found.header("connection") or "") == "close":
            del self._clients[port, token]
        if found.status >= 400 and found.body:
            return f"{found.status} {found.code}", None
        return str(found.status), json.loads(found.body) if found.body[:1] == b"{" else None

    async def prepare(
        self,
        *,
        group: str = "bank",
        transaction_id: str | None = None,
        topic: str | None = None,
        value: str = "theirs",
        **more: Any,
    ) -> tuple[str, Any]:
        """What was told, and the JSON of it."""
        asked = self.transaction(group=group, topic=topic, value=value, **more)
        if transaction_id is not None:
            asked["transaction_id"] = transaction_id
        return await self.answer("POST", "/v1/transactions", asked)

    def transaction(
        self, *, group: str, topic: str | None = None, value: str = "theirs", **more: Any
    ) -> dict[str, Any]:
        """What is asked then."""
        message = {"topic": topic or self.known.own_topic, "value": value, "key": "k"}
        return {"producer_group": group, "messages": [message], **more}

    # -- RocketMQ's protocol ---------------------------------------------------------------------

    async def remoting(self, *, is_kept: bool = False, **options: Any) -> RemotingClient:
        """Signed with a key of its own; `is_kept`: the one that is there, if it is."""
        kept = self._remoting
        if is_kept and kept is not None and not kept.closed.is_set():
            return kept
        chosen = {"access_key": "bank-key", "local": ADDRESSES[0], **options}
        secret = SECRETS.get(chosen["access_key"] or "", "")
        made = RemotingClient(self.rocketmq_port, secret_key=secret, **chosen)
        await self.stack.enter_async_context(made)
        if is_kept:
            self._remoting = made
        return made

    async def half(self, group: str, topic: str, body: bytes, **options: Any) -> Sent:
        client = await self.remoting(is_kept=True)
        return await client.half(group, topic, body, **options)

    async def close(self) -> None:
        """All that is open."""
        self._clients.clear()
        self._remoting = None
        await self.stack.aclose()
        self.stack = AsyncExitStack()
