"""A TCP proxy before one Kafka broker that knows where a request begins and which one it is.

Owns `KafkaProxy`: one listen port, one broker, an event loop in a thread of its own. It can hold
single frames by API key (`hold`), delay, stall or cut, and counts everything, so that a test can
prove that the fault it ordered has happened.

What holds:
- Frames of one connection and direction stay in order. A frame that is held holds back what comes
  behind it on its connection, as a slow network would.
- A held request outlives its client: whether the client gives up by itself or is reset by
  `reset_client`, the connection to the broker stays open until the frame is released (it reaches
  the broker then, late) or dropped. Answers for a client that is gone are read and thrown away.
- Every method may be called from any thread.

It does not speak TLS, and it never changes what is inside a frame.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

from chaos.kit.proxy_link import (
    ApiKey,
    DelayRule,
    Direction,
    Frame,
    FrameTest,
    HoldRule,
    Link,
    reset,
)
from halfhitch.embedded import EmbeddedKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from types import TracebackType

__all__ = [
    "ApiKey",
    "Counts",
    "Direction",
    "Frame",
    "HeldFrames",
    "KafkaProxy",
    "Rule",
    "one_proxied",
]

_T = TypeVar("_T")
_CALL_S = 10.0


@dataclass(frozen=True, slots=True)
class Counts:
    """What has happened so far. Passed frames were written on, seen ones may be held or lost."""

    requests_seen: Counter[int]
    requests_passed: Counter[int]
    responses_seen: Counter[int]
    responses_passed: Counter[int]
    connections: int  # ever accepted
    connections_open: int
    resets: int  # of client connections, by us
    held: int
    dropped: int


class HeldFrames:
    """What `hold` gives: the frames that were caught, and what becomes of them."""

    def __init__(self, proxy: KafkaProxy, rule: HoldRule) -> None:
        self._proxy = proxy
        self._rule = rule

    @property
    def frames(self) -> list[Frame]:
        """All that were caught, in order."""
        return list(self._rule.caught)

    @property
    def answers(self) -> list[Frame]:
        """What the broker answered to held requests after their release."""
        return list(self._rule.answers)

    def wait_caught(self, deadline_s: float, count: int = 1) -> Frame:
        """Wait for the `count`-th frame to be caught and give it; TimeoutError."""
        self._proxy.wait_for(
            lambda: len(self._rule.caught) >= count, deadline_s, f"{self._rule} catches {count}"
        )
        return self._rule.caught[count - 1]

    def wait_answered(self, deadline_s: float, count: int = 1) -> Frame:
        """Wait for the broker's `count`-th answer to a held request and give it; TimeoutError."""
        self._proxy.wait_for(
            lambda: len(self._rule.answers) >= count, deadline_s, f"{self._rule} is answered"
        )
        return self._rule.answers[count - 1]

    def release(self) -> None:
        """Let the caught frames go on, late, and catch no more."""
        self._proxy.settle(self._rule, is_dropped=False)

    def drop(self) -> None:
        """The caught frames never arrive; their connections end. Catch no more."""
        self._proxy.settle(self._rule, is_dropped=True)


class Rule:
    """A delay that can be taken away again."""

    def __init__(self, proxy: KafkaProxy, delay: DelayRule) -> None:
        self._proxy = proxy
        self._delay = delay

    def remove(self) -> None:
        """Frames that come from now on are not delayed by this rule."""
        self._proxy.forget(self._delay)


class KafkaProxy:
    """See the module's text. `with KafkaProxy(route.listen_port, route.target_port) as proxy:`"""

    def __init__(self, listen_port: int, target_port: int, *, host: str = "127.0.0.1") -> None:
        self.listen_port = listen_port
        self.target_port = target_port
        self.host = host
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=f"proxy-{listen_port}", daemon=True
        )
        self._changed = threading.Condition()
        self._change = 0
        self._server: asyncio.Server | None = None
        self._links: set[Link] = set()
        self._holds: list[HoldRule] = []
        self._delays: list[DelayRule] = []
        self._flowing = {direction: asyncio.Event() for direction in Direction}
        self._is_refusing = False
        self._bytes_left: int | None = None
        self._seen = {direction: Counter[int]() for direction in Direction}
        self._passed = {direction: Counter[int]() for direction in Direction}
        self._numbers = {"connections": 0, "resets": 0, "held": 0, "dropped": 0}
        for event in self._flowing.values():
            event.set()

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Listen. With port 0 `listen_port` is known afterwards."""
        self._thread.start()

        async def listen() -> None:
            self._server = await asyncio.start_server(
                self._accepted, self.host, self.listen_port, limit=2**20
            )
            self.listen_port = self._server.sockets[0].getsockname()[1]

        self._run(listen())
        return self

    def stop(self) -> None:
        """Close everything; held frames are lost. Harmless when repeated."""
        if not self._thread.is_alive():
            return

        async def close() -> None:
            if self._server is not None:
                self._server.close()
            links = list(self._links)
            for link in links:
                link.end()
            await asyncio.gather(*(link.ended.wait() for link in links))
            # What was closed is torn down in the loop's next rounds.
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0)

        self._run(close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_S)
        self._loop.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # -- faults ----------------------------------------------------------------------------------

    def hold(
        self,
        api_key: int,
        direction: Direction = Direction.REQUEST,
        count: int = 1,
        *,
        reset_client: bool = False,
        where: FrameTest | None = None,
    ) -> HeldFrames:
        """Catch the next `count` frames of this kind (for which `where` holds) and keep them.

        reset_client: the client's connection is reset when its frame is caught; a request lives on
        and reaches the broker when it is released, a response is lost.
        """
        rule = HoldRule(int(api_key), direction, count, reset_client, where)
        self._call(lambda: self._holds.append(rule))
        return HeldFrames(self, rule)

    def settle(self, rule: HoldRule, *, is_dropped: bool) -> None:
        """For HeldFrames."""

        def act() -> None:
            rule.is_dropped = is_dropped
            rule.settled.set()
            if rule in self._holds:
                self._holds.remove(rule)

        self._call(act)

    def delay(
        self, delay_ms: float, direction: Direction | None = None, api_key: int | None = None
    ) -> Rule:
        """Every frame arrives so much later; None means both directions, every request."""
        rule = DelayRule(delay_ms / 1000, direction, api_key)
        self._call(lambda: self._delays.append(rule))
        return Rule(self, rule)

    def forget(self, rule: DelayRule) -> None:
        """For Rule."""
        self._call(lambda: self._delays.remove(rule) if rule in self._delays else None)

    def stall(self, direction: Direction | None = None) -> None:
        """Nothing passes any more (None: either way); connections stay open. Until `heal`."""
        wanted = (direction,) if direction is not None else tuple(Direction)

        def act() -> None:
            for one in wanted:
                self._flowing[one].clear()

        self._call(act)

    def refuse(self) -> None:
        """New connections are reset at once. Until `heal`."""
        self._call(lambda: setattr(self, "_is_refusing", True))

    def heal(self) -> None:
        """No stall, no refusal, no delay, no cut to come; what is held stays held."""

        def act() -> None:
            self._delays.clear()
            self._is_refusing = False
            self._bytes_left = None
            for event in self._flowing.values():
                event.set()

        self._call(act)

    def cut(self) -> int:
        """Reset every connection now, both sides; gives how many. Held requests live on."""
        return self._call(self.cut_in_loop)

    def cut_in_loop(self) -> int:
        """For Link."""
        return sum(1 for link in list(self._links) if link.reset_client())

    def cut_after_bytes(self, byte_count: int) -> None:
        """So many bytes of requests still pass; then all is cut, in the middle of a frame maybe."""
        self._call(lambda: setattr(self, "_bytes_left", byte_count))

    # -- evidence --------------------------------------------------------------------------------

    def counts(self) -> Counts:
        """What has happened so far."""

        def act() -> Counts:
            return Counts(
                requests_seen=self._seen[Direction.REQUEST].copy(),
                requests_passed=self._passed[Direction.REQUEST].copy(),
                responses_seen=self._seen[Direction.RESPONSE].copy(),
                responses_passed=self._passed[Direction.RESPONSE].copy(),
                connections_open=sum(1 for link in self._links if not link.client_is_gone),
                **self._numbers,
            )

        return self._call(act)

    def wait_passed(
        self,
        api_key: int,
        count: int,
        deadline_s: float,
        direction: Direction = Direction.REQUEST,
    ) -> None:
        """Wait until so many frames of this kind were written on, counted from the start."""
        counter = self._passed[direction]
        self.wait_for(
            lambda: counter[int(api_key)] >= count,
            deadline_s,
            f"{direction.value} {int(api_key)} passes {count} times",
        )

    def wait_for(self, condition: Callable[[], bool], deadline_s: float, what: str) -> None:
        """Wait for something that changes with the frames; TimeoutError naming `what`."""
        give_up_s = time.monotonic() + deadline_s
        while True:
            change = self._change
            if condition():  # outside the lock: it may ask the loop
                return
            left_s = give_up_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(f"in {deadline_s:g} s it did not come true that {what}")
            with self._changed:
                if self._change == change:
                    self._changed.wait(min(left_s, 0.5))

    # -- in the loop -----------------------------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_S)

    def _call(self, act: Callable[[], _T]) -> _T:
        async def work() -> _T:
            return act()

        return self._run(work())

    def _note(self) -> None:
        with self._changed:
            self._change += 1
            self._changed.notify_all()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._numbers["connections"] += 1
        if self._is_refusing:
            reset(writer)
            return
        try:
            upstream = await asyncio.open_connection(self.host, self.target_port, limit=2**20)
        except OSError:
            reset(writer)  # the broker is down: the client shall see the same
            return
        link = Link(self, self._numbers["connections"], (reader, writer), upstream)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)
            self._note()

    def saw(self, frame: Frame) -> None:
        """For Link: the frame has arrived here."""
        self._seen[frame.direction][frame.api_key] += 1
        self._note()

    def passed(self, frame: Frame) -> None:
        """For Link: the frame was written on."""
        self._passed[frame.direction][frame.api_key] += 1
        self._note()

    def count_one(self, name: str) -> None:
        """For Link."""
        self._numbers[name] += 1

    def delay_of(self, frame: Frame) -> float:
        """For Link: seconds."""
        return sum(rule.delay_s for rule in self._delays if rule.concerns(frame))

    async def until_flowing(self, direction: Direction) -> None:
        """For Link: returns when this direction is not stalled."""
        await self._flowing[direction].wait()

    def catching(self, frame: Frame) -> HoldRule | None:
        """For Link: the rule that catches this frame, which is noted there."""
        for rule in self._holds:
            if rule.catches(frame):
                rule.left -= 1
                rule.caught.append(frame)
                self._numbers["held"] += 1
                self._note()
                return rule
        return None

    def answered(self, rule: HoldRule, frame: Frame) -> None:
        """For Link: the broker has answered a request that was held."""
        rule.answers.append(frame)
        self._note()

    def allowance(self, size: int) -> int | None:
        """For Link: how many of these bytes may pass before all is cut; None: all, no cut."""
        left = self._bytes_left
        if left is None:
            return None
        if size < left:
            self._bytes_left = left - size
            return None
        self._bytes_left = None
        return left


@contextmanager
def one_proxied() -> Iterator[tuple[EmbeddedKafka, KafkaProxy]]:
    """One broker of its own, and the proxy before it."""
    with EmbeddedKafka(short_lived=True, proxy_listener=True) as cluster:
        (route,) = cluster.proxies
        with KafkaProxy(route.listen_port, route.target_port) as proxy:
            yield cluster, proxy
