"""The RocketMQ door: its listener, its life, and the sweep.

Owns `RocketmqDoor`: what others start and stop. It is name server and broker of RocketMQ clients on
one port. It binds, hands connections to connection.py, looks after their deadlines, and drains on
the way out: checks go elsewhere at once, new messages are sent elsewhere, ends are still taken.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from halfhitch.access import Access
from halfhitch.doors.holding import OnRefused
from halfhitch.doors.rocketmq.access import AccessControl
from halfhitch.doors.rocketmq.arrivals import Arrivals
from halfhitch.doors.rocketmq.connection import Connection, Shared
from halfhitch.doors.rocketmq.dispatch import Dispatcher
from halfhitch.doors.rocketmq.lending import Lending
from halfhitch.doors.rocketmq.limits import Limits
from halfhitch.doors.rocketmq.links import Questioning
from halfhitch.doors.rocketmq.load import Load
from halfhitch.doors.rocketmq.places import Places
from halfhitch.doors.rocketmq.routes import Routes
from halfhitch.doors.rocketmq.stats import Snapshot, Stats
from halfhitch.doors.tls import ServerTls
from halfhitch.doors.tls_listening import Patience, TlsListener, handshakes_max
from halfhitch.errors import ConfigurationError
from halfhitch.service.api import SingleSends, Transactions
from halfhitch.service.checking.api import CheckDesk
from halfhitch.service.transactions.topic_directory import TopicDirectory

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
    tls: ServerTls | None = None
    tls_required: bool = False
    create_topics: bool = False
    create_partitions: int = 4


class RocketmqDoor:
    """Runs on the loop that starts it."""

    def __init__(
        self,
        transactions: Transactions,
        sends: SingleSends,
        topics: TopicDirectory,
        *,
        wall_ms: Callable[[], int],
        desk: CheckDesk | None = None,
        unready_reasons: Callable[[], Sequence[str]] = list,
        options: RocketmqOptions | None = None,
        limits: Limits,
        lending: Lending | None = None,
        on_refused: OnRefused | None = None,
        access: Access | None = None,
    ) -> None:
        """`access` knows whose access keys they are; without it each key may do everything."""
        self._options = options = options or RocketmqOptions()
        control = AccessControl(options.access_secrets, access)
        # The native way looks at no signature and at no right: what is asked for, it must not pass.
        self._lending = lending = None if control.is_on else lending
        self._limits = limits
        self._load = load = Load(
            Stats(),
            limits,
            on_refused,
            unready_reasons=unready_reasons,
            has_native=lending is not None,
        )
        routes = Routes(
            topics,
            broker_name=options.broker_name,
            cluster_name=options.cluster_name,
            create_topics=options.create_topics,
            create_partitions=options.create_partitions,
        )
        self._dispatcher = Dispatcher(
            transactions,
            sends,
            desk,
            routes,
            access=control,
            limits=limits,
            load=load,
            has_native=lending is not None,
        )
        questioning = Questioning(
            options.broker_name, wall_ms, transactions.read_handle, transactions.seals
        )
        self._places = None if desk is None else Places(desk, questioning, limits, load.stats)
        self._control = control
        self._server: asyncio.Server | None = None
        self._tls_listener: TlsListener | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._port: int | None = None

    @property
    def port(self) -> int | None:
        """The port while the door is open."""
        return self._port

    def snapshot(self) -> Snapshot:
        """What the door has counted. From any thread."""
        return self._load.stats.snapshot()

    def replace_access_secrets(self, secrets: Mapping[str, str]) -> None:
        """Requests must be signed with these from now on; for a door that asks for signatures."""
        self._control.replace(secrets)

    async def start(self) -> None:
        """Open the door. Raises ConfigurationError; nothing stays open then."""
        if self._sweeper is not None:
            raise RuntimeError("this door has been started before")
        options, loop = self._options, asyncio.get_running_loop()
        shared = Shared(
            dispatcher=self._dispatcher,
            places=self._places,
            limits=self._limits,
            load=self._load,
            loop=loop,
            advertised=options.advertised,
            requires_tls=options.tls_required,
            arrivals=Arrivals(self._load, self._limits, asks_for_signatures=self._control.is_on),
            asks_for_signatures=self._control.is_on,
            lending=self._lending,
        )
        if self._lending is not None:
            self._lending.start(self._load.stats)
        self._look()
        try:
            await self._listen(loop, partial(Connection, shared))
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
        limits = self._limits
        self._tls_listener = TlsListener(
            options.tls,
            factory,
            plain=factory,
            patience=Patience(
                wait_s=limits.handshake_s, count_max=handshakes_max(limits.connection_count_max)
            ),
        )
        self._port = self._tls_listener.listen(options.host, options.port)

    async def stop(self, drain_s: float = 10.0) -> None:
        """Take no more connections, answer what was begun, close; after `drain_s` close anyway."""
        if self._server is not None:
            self._server.close()
        if self._tls_listener is not None:
            self._tls_listener.close()
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + drain_s
        try:
            await self._load.drain(drain_s, [self._sweeper])
        finally:
            if self._lending is not None:
                await self._lending.stop(max(0.0, give_up_s - loop.time()))
                self._say_failed_ends()
            await self._closed()

    def hurry(self) -> None:
        """Wait for nobody any more: a stop that is under way ends now."""
        self._load.hurry()

    async def _closed(self) -> None:
        if self._server is not None:
            await self._server.wait_closed()
        if self._tls_listener is not None:
            await self._tls_listener.wait_closed()
        self._server = self._tls_listener = self._port = None

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
        """May sockets stay lent? And say what one-way requests could not say."""
        if self._lending is not None:
            self._lending.look()
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
