"""The RocketMQ door: its listener, its life, and the sweep.

Owns `RocketmqDoor`: what others start and stop. It is name server and broker of RocketMQ clients on
one port. It binds, hands connections to connection.py, looks after their deadlines, and drains on
the way out: checks go elsewhere at once, new messages are sent elsewhere, ends are still taken.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, cast

from halfhitch.doors.rocketmq.access import AccessControl
from halfhitch.doors.rocketmq.connection import Connection
from halfhitch.doors.rocketmq.dispatch import Dispatcher
from halfhitch.doors.rocketmq.express import Express
from halfhitch.doors.rocketmq.limits import Limits
from halfhitch.doors.rocketmq.links import Questioning
from halfhitch.doors.rocketmq.load import Load
from halfhitch.doors.rocketmq.places import Places
from halfhitch.doors.rocketmq.stats import Snapshot, Stats
from halfhitch.doors.rocketmq.surroundings import Surroundings
from halfhitch.doors.rocketmq.tls import PeekingListener
from halfhitch.errors import ConfigurationError, KafkaUnavailable
from halfhitch.service.checking.api import CheckDesk
from halfhitch.service.singles import Singles
from halfhitch.service.target_topics import TargetTopics

logger = logging.getLogger(__name__)

_SWEEP_S: Final = 0.25
_BACKLOG: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RocketmqOptions:
    """What an operator decides about the door."""

    host: str = "127.0.0.1"
    port: int = 9876
    #: host, or host:port, that clients are told; None: the address they have dialled.
    advertised: tuple[str, int | None] | None = None
    broker_name: str = "halfhitch"
    cluster_name: str = "DefaultCluster"
    access_secrets: Mapping[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    tls_required: bool = False
    create_topics: bool = False
    create_partitions: int = 4


class RocketmqDoor:
    """Runs on the loop that starts it."""

    def __init__(
        self,
        singles: Singles,
        topics: TargetTopics,
        *,
        wall_ms: Callable[[], int],
        desk: CheckDesk | None = None,
        unready_reasons: Callable[[], Sequence[str]] = list,
        options: RocketmqOptions | None = None,
        limits: Limits | None = None,
        express: Express | None = None,
    ) -> None:
        self._express = express
        self._options = options = options or RocketmqOptions()
        self._limits = limits = limits or Limits()
        self._desk = desk
        self._unready_reasons = unready_reasons
        self._load = Load(Stats())
        places = Places(
            topics,
            broker_name=options.broker_name,
            cluster_name=options.cluster_name,
            create_topics=options.create_topics,
            create_partitions=options.create_partitions,
        )
        self._dispatcher = Dispatcher(
            singles,
            desk,
            places,
            access=AccessControl(options.access_secrets),
            limits=limits,
            load=self._load,
            has_express=self._express is not None,
        )
        self._questioning = Questioning(options.broker_name, wall_ms, singles.read_handle)
        self._server: asyncio.Server | None = None
        self._peeking: PeekingListener | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._port: int | None = None

    @property
    def port(self) -> int | None:
        """The port while the door is open."""
        return self._port

    def snapshot(self) -> Snapshot:
        """What the door has counted. From any thread."""
        return self._load.stats.snapshot()

    async def start(self) -> None:
        """Open the door. Raises ConfigurationError; nothing stays open then."""
        if self._sweeper is not None:
            raise RuntimeError("this door has been started before")
        options, loop = self._options, asyncio.get_running_loop()
        surroundings = Surroundings(
            dispatcher=self._dispatcher,
            desk=self._desk,
            questioning=self._questioning,
            limits=self._limits,
            load=self._load,
            loop=loop,
            advertised=options.advertised,
            requires_tls=options.tls_required,
            express=self._express,
        )
        if self._express is not None:
            self._express.start(self._load.stats)
        self._look()
        try:
            # It has a protocol's methods, and loops ask for no more.
            factory = cast("Callable[[], asyncio.Protocol]", partial(Connection, surroundings))
            await self._listen(loop, factory)
        except (OSError, OverflowError) as error:
            await self.stop(0)
            raise ConfigurationError(
                f"Cannot listen on {options.host}:{options.port}: {error}. Choose another "
                "rocketmq.host or rocketmq.port, or stop what uses it."
            ) from error
        self._sweeper = asyncio.create_task(self._sweep(), name="rocketmq-door-sweep")

    async def _listen(
        self, loop: asyncio.AbstractEventLoop, factory: Callable[[], asyncio.Protocol]
    ) -> None:
        options = self._options
        if options.tls is None:
            self._server = await loop.create_server(
                factory, options.host, options.port, backlog=_BACKLOG
            )
            self._port = self._server.sockets[0].getsockname()[1]
            return
        self._peeking = PeekingListener(
            loop,
            factory,
            options.tls,
            wait_s=self._limits.handshake_s,
            waiting_count_max=self._limits.connection_count_max,
        )
        self._port = self._peeking.listen(options.host, options.port)

    async def stop(self, drain_s: float = 10.0) -> None:
        """Take no more connections, answer what was begun, close; after `drain_s` close anyway."""
        if self._server is not None:
            self._server.close()
        if self._peeking is not None:
            self._peeking.close()
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + drain_s
        try:
            await self._load.drain(drain_s, [self._sweeper])
        finally:
            if self._express is not None:
                await self._express.stop(max(0.0, give_up_s - loop.time()))
                self._say_failed_ends()
            await self._closed()

    async def _closed(self) -> None:
        if self._server is not None:
            await self._server.wait_closed()
        self._server = self._peeking = self._port = None

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_S)
            try:
                self._look()
                now_s = loop.time()
                for connection in list(self._load.connections):
                    connection.sweep(now_s)
            except Exception:  # the clock goes on
                logger.exception(
                    "a sweep of the RocketMQ door failed", extra={"action": "rocketmq_bug"}
                )

    def _look(self) -> None:
        """Is Kafka there? And say what one-way requests could not say."""
        load = self._load
        reasons = self._unready_reasons()
        load.refusal = KafkaUnavailable(reasons[0]) if reasons else None
        if self._express is not None:
            self._express.look()
        self._say_failed_ends()

    def _say_failed_ends(self) -> None:
        load = self._load
        if load.failed_ends is not None:
            count, error = load.failed_ends
            load.failed_ends = None
            logger.warning(
                "%d one-way ends of RocketMQ producers could not be carried out; what is still "
                "undecided will be checked. The last reason: %s",
                count,
                error,
                extra={"action": "rocketmq_ends_failed", "error_code": error.code},
            )
