"""The first application: transactions over both doors at a modest pace, and what becomes of them.

Owns `Victim`. Of ten transactions at each door six are committed, two rolled back, and two left to
their checks, which it answers. It keeps what it must find on its topic, every refusal that it ever
got, and how long its transactions took.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Self

from harness.neighbour.attack import SECRETS, SHOP, Known
from harness.raw_http import Client, json_post, request
from harness.remoting_client import RemotingClient

if TYPE_CHECKING:
    from harness.remoting_client import Sent

COMMIT, ROLLBACK = 8, 12
GROUP = "shop"
_FATES = ("commit", "commit", "check", "commit", "rollback")
#: Each connection is used for so many transactions: whoever cannot come back notices it.
_USES = 10


@dataclass
class Phase:
    """How long transactions took, in seconds, by door."""

    took_s: dict[str, list[float]] = field(default_factory=lambda: {"HTTP": [], "RocketMQ": []})

    @property
    def count(self) -> int:
        """At the door that has fewer."""
        return min(len(found) for found in self.took_s.values())

    @property
    def median_s(self) -> dict[str, float]:
        return {door: median(found) for door, found in self.took_s.items()}


class Victim:
    """Use as a context manager: it works as long as that is open."""

    def __init__(self, http_port: int, rocketmq_port: int, topic: str, pace: float) -> None:
        self.http_port, self.rocketmq_port = http_port, rocketmq_port
        self.topic, self.pace = topic, pace
        self.wanted: Counter[bytes] = Counter()
        self.refusals: list[str] = []
        self.checked = Counter[str]()
        self._phase = Phase()
        self._changed = asyncio.Condition()
        self._numbers = itertools.count(1)
        self._fate_of: dict[str, str] = {}
        self._is_over = False

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        self._listener = await self._stack.enter_async_context(self._remoting())
        answer = await self._listener.heartbeat(GROUP)
        assert answer.code == 0, answer.remark
        # This door looks twice a second whether Kafka is there, and may not have looked since.
        async with asyncio.timeout(30):
            while (sent := await self._listener.half(GROUP, self.topic, b"first")).code:
                await asyncio.sleep(0.05)
        assert (await self._listener.end_sync(GROUP, sent, ROLLBACK)).code == 0
        stream = await self._dial()
        headers = (("Half-Token", SHOP), ("Half-Producer-Name", "shop-1"))
        await stream.send(request("GET", f"/v1/checks?producer_group={GROUP}", headers))
        self._listening = [
            asyncio.ensure_future(self._answer_stream(stream)),
            asyncio.ensure_future(self._answer_listener()),
        ]
        self._working = [
            asyncio.ensure_future(self._work(self._over_http, "HTTP")),
            asyncio.ensure_future(self._work(self._over_rocketmq, "RocketMQ")),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in (*self._working, *self._listening):
            task.cancel()
        await asyncio.gather(*self._working, *self._listening, return_exceptions=True)
        await self._stack.aclose()

    async def stop(self) -> None:
        """Begin nothing more; what was left to checks is asked about."""
        self._is_over = True
        await asyncio.gather(*self._working)

    # -- what is looked at -----------------------------------------------------------------------

    def phase(self) -> Phase:
        """A new one: from now on."""
        self._phase = Phase()
        return self._phase

    async def has_done(self, phase: Phase, count: int, deadline_s: float = 120.0) -> None:
        """So many transactions at each door have been ended in this phase."""
        failed = asyncio.ensure_future(
            asyncio.wait((*self._working, *self._listening), return_when=asyncio.FIRST_COMPLETED)
        )
        async with asyncio.timeout(deadline_s), self._changed:
            await self._changed.wait_for(
                lambda: phase.count >= count or failed.done() or self.refusals
            )
        failed.cancel()
        for task in (*self._working, *self._listening):
            if task.done():
                task.result()

    async def bait(self, own_topic: str) -> tuple[Known, Sent]:
        """A transaction over each door that is pending, for an attacker that knows of it."""
        number = next(self._numbers)
        name = f"shop-{number}"
        made = await self._prepare(name, self._value(name), immunity_seconds=3_600)
        patience = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "3600"}
        async with self._remoting() as client:
            sent = await self._half(client, f"{name}-rocketmq", **patience)
        known = Known(
            group=GROUP,
            topic=self.topic,
            own_topic=own_topic,
            handle=made["handle"],
            transaction_id=name,
            sent=asdict(sent),
            next_id=f"{name}-next",
        )
        return known, sent

    async def take_bait(self, known: Known, sent: Sent) -> None:
        """It ends what was attacked as it wanted to, and uses the id that was told."""
        following = await self._prepare(known.next_id, self._value(known.next_id))
        for name, handle in (
            (known.transaction_id, known.handle),
            (known.next_id, following["handle"]),
        ):
            await self._end(handle, "commit")
            self.wanted[self._value(name)] += 1
        unique = sent.fields["transactionId"]
        async with self._remoting() as client:
            await self._end_half(client, sent, COMMIT)
        self.wanted[self._value(unique)] += 1

    # -- its work --------------------------------------------------------------------------------

    async def _work(self, one: Any, door: str) -> None:
        loop = asyncio.get_running_loop()
        next_s = loop.time()
        async with AsyncExitStack() as stack:
            for number in itertools.count():
                if self._is_over:
                    return
                if number % _USES == 0:
                    await stack.aclose()
                    connection = await self._connect(door, stack)
                name, fate = f"{door}-{next(self._numbers)}", _FATES[number % len(_FATES)]
                self._fate_of[name] = (
                    ("commit", "rollback")[number // 5 % 2] if (fate == "check") else fate
                )
                if self._fate_of[name] == "commit":
                    self.wanted[self._value(name)] += 1
                phase, began_s = self._phase, loop.time()
                await one(connection, name, fate)
                if fate != "check":
                    phase.took_s[door].append(loop.time() - began_s)
                    async with self._changed:
                        self._changed.notify_all()
                next_s = max(next_s + 1 / self.pace, loop.time())
                await asyncio.sleep(next_s - loop.time())

    async def _connect(self, door: str, stack: AsyncExitStack) -> Any:
        if door == "HTTP":
            client = await Client.tcp(self.http_port)
            stack.push_async_callback(client.close)
            return client
        return await stack.enter_async_context(self._remoting())

    async def _over_http(self, client: Client, name: str, fate: str) -> None:
        made = await self._prepare(name, self._value(name), client)
        if fate != "check":
            await self._end(made["handle"], fate, client)

    async def _over_rocketmq(self, client: RemotingClient, name: str, fate: str) -> None:
        sent = await self._half(client, name)
        if fate != "check":
            await self._end_half(client, sent, COMMIT if fate == "commit" else ROLLBACK)

    async def _half(self, client: RemotingClient, name: str, **properties: str) -> Sent:
        while True:
            value = self._value(name)
            sent = await client.half(GROUP, self.topic, value, properties, unique=name)
            if self._is_good("a half message", sent.code == 0, sent.remark):
                return sent

    async def _end_half(self, client: RemotingClient, sent: Sent, decision: int) -> None:
        for is_last in (False, False, False, True):
            try:
                answer = await client.end_sync(GROUP, sent, decision)
            except TimeoutError:  # Kafka was not quick enough to say what stands
                if is_last:
                    raise
                continue
            if self._is_good("an end over RocketMQ", answer.code == 0, answer.remark):
                return

    def _value(self, name: str) -> bytes:
        return f"mine: {name}".encode()

    async def _prepare(
        self, name: str, value: bytes, client: Client | None = None, **more: Any
    ) -> Any:
        asked = {
            "producer_group": GROUP,
            "transaction_id": name,
            "messages": [{"topic": self.topic, "value": value.decode()}],
            **more,
        }
        return await self._ask("/v1/transactions", asked, client)

    async def _end(self, handle: str, end: str, client: Client | None = None) -> None:
        await self._ask(f"/v1/transactions/{handle}/{end}", {}, client)

    async def _ask(self, path: str, body: Any, client: Client | None) -> Any:
        used = await self._dial() if client is None else client
        while True:
            answer = await used.ask(json_post(path, body, ("Half-Token", SHOP)))
            if self._is_good(path, answer.status < 300, f"{answer.status} {answer.body!r}"):
                break
        if client is None:
            await used.close()
        return answer.json()

    def _is_good(self, what: str, is_good: bool, told: str | None) -> bool:
        """False: nobody knows, because of Kafka, so it is asked again as any producer would."""
        if is_good:
            return True
        if "outcome_unknown" in (told or ""):
            return False
        self.refusals.append(f"{what}: {told}")
        raise AssertionError(self.refusals[-1])

    # -- its checks ------------------------------------------------------------------------------

    async def _answer_stream(self, stream: Client) -> None:
        while line := await stream.reader.readline():
            if not line.startswith(b'{"type":"check"'):
                continue
            check = json.loads(line)
            fate = self._fate_of[check["transaction_id"]]
            self.checked[check["transaction_id"]] += 1
            # Not over a connection that is kept: checks may be further apart than one may be idle.
            await self._ask(f"/v1/transactions/{check['handle']}/{fate}?source=check", {}, None)
        raise AssertionError("the check stream has ended")

    async def _answer_listener(self) -> None:
        while True:
            check, _ = await self._listener.checks.get()
            self.checked[check.transaction_id] += 1
            decision = COMMIT if self._fate_of[check.transaction_id] == "commit" else ROLLBACK
            self._listener.end(GROUP, check, decision)

    async def _dial(self) -> Client:
        client = await Client.tcp(self.http_port)
        self._stack.push_async_callback(client.close)
        return client

    def _remoting(self) -> RemotingClient:
        key = "shop-key"
        return RemotingClient(self.rocketmq_port, access_key=key, secret_key=SECRETS[key])
