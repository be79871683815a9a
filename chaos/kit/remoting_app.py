"""An application process whose producers speak RocketMQ's protocol.

`python -m chaos.kit.remoting_app`, with the plan's `addresses` naming logs of sidecars: where its
RocketMQ door is, each life of a sidecar tells anew. All transactions have one message, as with
RocketMQ, and their ends are awaited, so that it is known which were taken.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.kit.apps import COMMIT, CONTESTED, ROLLBACK, Application, AppPlan, AppProcess
from chaos.kit.history import Message as Noted
from halfhitch.client import LocalTransactionState
from halfhitch.errors import OutcomeUnknown, ShuttingDown
from halfhitch.wire.remoting import codes
from harness.remoting_client import RemotingClient

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine

    from chaos.kit.stage import Scene
    from halfhitch.client import Message
    from harness.remoting_client import Sent

_DECISIONS = {"COMMIT": 8, "ROLLBACK": 12, "UNKNOWN": 0}
_CALL_S = 5.0
_AGAIN_S = 0.3
_BEAT_S = 2.0
#: It surely has not been taken.
_ELSEWHERE = frozenset({codes.GO_AWAY, codes.SERVICE_NOT_AVAILABLE})
_HISTORY = "remoting.jsonl"
#: Settings of its sidecars.
DOOR = {"HALFHITCH_ROCKETMQ_ENABLED": "true", "HALFHITCH_ROCKETMQ_PORT": "0"}
_CHECK_NUMBER = "TRANSACTION_CHECK_TIMES"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a check of the other client is to the listener."""

    producer_group: str
    transaction_id: str
    number: int


class Door:
    """One sidecar's door: a connection, made anew whenever it is gone, on a thread of its own."""

    def __init__(
        self, group: str, log: Path, answer: Callable[[Asked], LocalTransactionState]
    ) -> None:
        self._group, self._log, self._answer = group, log, answer
        self._client: RemotingClient | None = None
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(self._stay(), self._loop)

    def half(self, transaction_id: str, message: Message) -> Sent:
        """Raises HalfHitchError."""
        assert isinstance(message.value, bytes)
        properties = {"KEYS": message.key.decode()} if isinstance(message.key, bytes) else {}

        async def send(client: RemotingClient) -> Sent:
            assert isinstance(message.value, bytes)
            queue = {"e": str(message.partition)}
            return await client.half(
                self._group,
                message.topic,
                message.value,
                properties,
                unique=transaction_id,
                **queue,
            )

        sent = self._call(send)
        self._judge(sent.code, sent.remark)
        return sent

    def end(self, sent: Sent, decision: str) -> None:
        """Raises HalfHitchError."""

        async def send(client: RemotingClient) -> Any:
            return await client.end_sync(self._group, sent, _DECISIONS[decision])

        answer = self._call(send)
        self._judge(answer.code, answer.remark)

    def close(self) -> None:
        """The process ends soon."""
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _call(self, ask: Callable[[RemotingClient], Coroutine[Any, Any, Any]]) -> Any:
        client = self._client
        if client is None:
            raise ShuttingDown("there is no connection")
        try:
            return asyncio.run_coroutine_threadsafe(ask(client), self._loop).result(_CALL_S)
        except (OSError, TimeoutError) as error:
            raise OutcomeUnknown(str(error)) from error

    def _judge(self, code: int, remark: str | None) -> None:
        if code in _ELSEWHERE:
            raise ShuttingDown(remark or "it goes away")
        if code != codes.SUCCESS:
            raise OutcomeUnknown(f"code {code}: {remark}")

    async def _stay(self) -> None:
        while True:
            try:
                async with RemotingClient(self._port()) as client:
                    await client.heartbeat(self._group)
                    self._client = client
                    await self._serve(client)
            except (OSError, TimeoutError, IndexError, ValueError):
                pass  # it is away, or has not told its port yet
            self._client = None
            await asyncio.sleep(_AGAIN_S)

    def _port(self) -> int:
        return int(self._log.read_text(errors="replace").split("rocketmq://")[-1].split(":")[1][:5])

    async def _serve(self, client: RemotingClient) -> None:
        answering = asyncio.ensure_future(self._answer_checks(client))
        gone = asyncio.ensure_future(client.closed.wait())
        try:
            while not gone.done():
                await client.heartbeat(self._group)
                await asyncio.wait([gone], timeout=_BEAT_S)
        finally:
            answering.cancel()
            gone.cancel()

    async def _answer_checks(self, client: RemotingClient) -> None:
        while True:
            check, message = await client.checks.get()
            number = int(message.properties.get(_CHECK_NUMBER, "1"))
            asked = Asked(self._group, check.transaction_id, number)
            state = await asyncio.to_thread(self._answer, asked)
            client.end(self._group, check, _DECISIONS[state.value])


class RemotingProcess(AppProcess):
    """Transactions of one message each; what becomes of them is the other processes' way."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._places = told.pop("addresses")
        super().__init__({**told, "addresses": ()})
        self.producers = [
            Door(self.plan.group, Path(place), self.check)  # type: ignore[misc, arg-type]
            for place in self._places
        ]
        self.shunned_until_s = [0.0] * len(self.producers)

    def transact(self, rng: random.Random, transaction_id: str, plan: str) -> None:
        """See AppProcess."""
        home = rng.randrange(len(self.producers))
        message = self.message(rng, transaction_id, 0)._replace(partition=rng.randrange(2))
        sent = self.ask(
            "prepare", transaction_id, lambda door: door.half(transaction_id, message), home,
            [message],
        )  # fmt: skip
        plan = COMMIT if plan == CONTESTED else plan
        fate = self.decide(transaction_id, plan, sent)
        if sent is not None and fate is not None and plan in (COMMIT, ROLLBACK):
            self.ask(fate.lower(), transaction_id, lambda door: door.end(sent, fate), home)

    def described(self, message: Message) -> Any:
        """See AppProcess; properties are not compared."""
        value, key = message.value, message.key
        assert isinstance(value, bytes)
        assert key is None or isinstance(key, bytes)
        return Noted.of(message.topic, value, key, partition=message.partition, headers=None)


def answered_count(scene: Scene) -> int:
    """Calls of that application that were answered so far."""
    return (scene.histories / _HISTORY).read_bytes().count(b'"phase":"ok"')


def add_to(scene: Scene) -> None:
    """One more application of the scene, whose sidecars have the settings `DOOR`."""
    name = f"{scene.prefix}remoting"
    plan = AppPlan(
        name=name,
        group="group-of-rocketmq",
        addresses=tuple(str(sidecar.log) for sidecar in scene.sidecars.values()),
        topics=scene.targets,
        history=str(scene.histories / _HISTORY),
        fates=str(scene.folder / "group-of-rocketmq.sqlite"),
        seed=scene.seed,
        rate_per_s=15.0,
        slow_percent=0.0,
        module="chaos.kit.remoting_app",
    )
    app = Application(plan, scene.folder / "remoting.log")
    scene.apps.append(app)
    app.start()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    RemotingProcess(json.loads(sys.argv[1])).run()
