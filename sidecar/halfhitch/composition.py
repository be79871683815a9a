"""The running program: settings in, engine and doors wired, signals handled, an exit code out.

The one place that knows both the settings and the concrete classes. Start order: engine (which
may still be looking for Kafka), admin door, data door. Stop order: the data door drains while all
behind it still works, then the engine gives its partitions up, then the admin door goes, so that
probes can watch the whole stop. The RocketMQ door starts after and stops with the data door.
"""

import asyncio
import gc
import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from halfhitch.adapters.descriptors import have_descriptors
from halfhitch.adapters.watchdog import Watchdog, progress, resting
from halfhitch.composition_rocketmq import rocketmq_door
from halfhitch.config import Settings
from halfhitch.core.check_rules import CheckRules
from halfhitch.doors.admin.door import ADMIN_LIMITS, AdminDoor
from halfhitch.doors.http.limits import Limits
from halfhitch.doors.http.server import HttpDoor
from halfhitch.doors.rocketmq import RocketmqDoor
from halfhitch.engine import Engine, EngineOptions
from halfhitch.errors import HalfHitchError
from halfhitch.observability import logging as log_setup
from halfhitch.observability.metrics import Metrics
from halfhitch.service.bounds import IntakeLimits
from halfhitch.service.checking.limits import DeskLimits
from halfhitch.service.owner import OwnerLimits

logger = logging.getLogger(__name__)

_LAG_SAMPLE_S: Final = 0.5
#: Files besides connections of the doors: Kafka's brokers several times, Redis, callbacks.
_OTHER_FILES: Final = 512


class App:
    """Engine, metrics and doors of one process. `await start()`, `await stop()`."""

    def __init__(self, settings: Settings, *, create_topics: bool = False) -> None:
        self._settings = settings
        self.metrics = Metrics()
        self.engine = Engine(engine_options(settings, create_topics=create_topics), self.metrics)
        self._lag: asyncio.Task[None] | None = None
        self.http: HttpDoor | None = None
        self.rocketmq: RocketmqDoor | None = None
        self.admin: AdminDoor | None = None

    async def start(self) -> None:
        """Open everything. Raises ConfigurationError when a door cannot be opened."""
        settings, engine = self._settings, self.engine
        tokens = [token.reveal() for token in settings.auth.tokens]
        await engine.start()
        self.metrics.membership(engine.membership)
        try:
            self.admin = AdminDoor(
                engine,
                self.metrics,
                [msgspec.to_builtins(value) for value in settings.describe()],
                settings.admin.host,
                settings.admin.port,
                tokens,
                allowed_hosts=settings.http.hosts,
                death_reasons=engine.death_reasons,
                operations=engine.operations,
            )
            await self.admin.start()
            self.http = HttpDoor(
                engine.transactions,
                checks=engine.desk,
                host=settings.http.host,
                port=settings.http.port,
                unix_path=settings.http.socket,
                tokens=tokens,
                allowed_hosts=settings.http.hosts,
                limits=_limits(settings),
                on_request=self.metrics.http_request,
            )
            await self.http.start()
            if settings.rocketmq.enabled:
                self.rocketmq = rocketmq_door(settings, engine, self.metrics)
                await self.rocketmq.start()
        except BaseException:
            await self.stop()
            raise
        self._lag = asyncio.ensure_future(self._sample_lag())

    async def stop(self) -> None:
        """Drain, give partitions up, close."""
        drain_s = self._settings.drain.s_max
        await asyncio.gather(
            *(door.stop(drain_s) for door in (self.http, self.rocketmq) if door is not None)
        )
        await self.engine.stop()
        if self._lag is not None:
            self._lag.cancel()
            resting()
        if self.admin is not None:
            await self.admin.stop()

    async def _sample_lag(self) -> None:
        while True:
            progress()
            due_s = time.monotonic() + _LAG_SAMPLE_S
            await asyncio.sleep(_LAG_SAMPLE_S)
            self.metrics.loop_lag(max(0.0, time.monotonic() - due_s))


def engine_options(settings: Settings, *, create_topics: bool = False) -> EngineOptions:
    """The engine's plain values out of the settings."""
    kafka, owner = settings.kafka, settings.owner
    return EngineOptions(
        bootstrap=kafka.bootstrap,
        handle_keys=tuple(key.reveal().encode() for key in settings.handle.key),
        instance=settings.instance.id,
        topic_prefix=settings.topics.prefix,
        partition_count=settings.topics.partitions,
        replication_factor=settings.topics.replication_factor,
        create_topics=create_topics or settings.topics.create,
        allow_topics=settings.topics.allow,
        owner_enabled=owner.enabled,
        owner_limits=OwnerLimits(
            batch_count_max=owner.batch_count_max,
            batch_bytes_max=owner.batch_bytes_max,
            payload_cache_bytes=owner.payload_cache_bytes,
            horizon_ms=settings.ledger.horizon_s * 1000,
            finished_max=settings.ledger.finished_max,
            check_rules=_check_rules(settings),
        ),
        desk_limits=DeskLimits(
            in_flight_max=settings.checks.in_flight_max, answer_s=settings.checks.answer_s_max
        ),
        give_up=settings.checks.give_up,
        give_up_topics=settings.checks.give_up_topics,
        redis_url=None if settings.redis.url is None else settings.redis.url.reveal(),
        check_url=settings.checks.url,
        check_url_groups=settings.checks.url_groups,
        check_url_networks=settings.checks.url_networks,
        check_url_token=(
            None if settings.checks.url_token is None else settings.checks.url_token.reveal()
        ),
        transaction_timeout_ms=owner.transaction_timeout_ms,
        session_timeout_ms=owner.session_timeout_ms,
        group_instance_id=settings.instance.id if owner.static_membership else None,
        message_bytes_max=settings.messages.bytes_max,
        transaction_bytes_max=settings.messages.transaction_bytes_max,
        intake_limits=IntakeLimits(
            undecided_max=settings.limits.undecided_max,
            undecided_group_max=settings.limits.undecided_group_max,
            lag_s_max=settings.limits.lag_s_max,
        ),
        visible_wait_s=settings.visible.wait_s_max,
        producer_options=kafka.options.for_client("producer"),
        consumer_options=kafka.options.for_client("consumer"),
        admin_options=kafka.options.for_client("admin"),
    )


def _check_rules(settings: Settings) -> CheckRules:
    checks = settings.checks
    return CheckRules(
        immunity_ms=int(checks.immunity_s * 1000),
        interval_ms=int(checks.interval_s * 1000),
        backoff=checks.backoff,
        interval_ms_max=int(checks.interval_s_max * 1000),
        jitter=checks.jitter,
        count_max=checks.count_max,
        age_ms_max=checks.age_s_max * 1000,
        renew_ms=checks.renew_s * 1000,
        incomplete_ms=settings.ledger.horizon_s * 1000,
        # Somewhat more than the desk waits, with another instance in between.
        answer_ms=int(checks.answer_s_max * 1000) + 10_000,
    )


def _limits(settings: Settings) -> Limits:
    http = settings.http
    return Limits(
        # A binary message of the full size must pass the JSON route too: base64 adds a third.
        body_bytes_max=settings.messages.bytes_max * 4 // 3 + 65_536,
        header_bytes_max=http.header_bytes_max,
        connection_count_max=http.connections_max,
        stream_count_max=max(1, http.connections_max // 2),
        in_flight_count_max=http.in_flight_max,
        receive_s=http.receive_s_max,
        idle_s=http.idle_s_max,
    )


def run(
    settings: Settings,
    *,
    create_topics: bool = False,
    on_ready: Callable[[App], None] | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. Logs to stderr."""
    log_setup.set_up(level=settings.log.level, form=settings.log.format, secrets=settings.secrets())
    _have_files_for_connections(settings)
    # Hundreds of thousands of long-lived records: the default would walk them all the time.
    gc.set_threshold(50_000, 20, 100)
    with _watchdog(settings), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            return runner.run(_serve(settings, create_topics=create_topics, on_ready=on_ready))
        except HalfHitchError as error:
            print(f"halfhitch: {error}", file=sys.stderr)  # noqa: T201 - the command's own answer
            return 1


def _have_files_for_connections(settings: Settings) -> None:
    connection_count = settings.http.connections_max + ADMIN_LIMITS.connection_count_max
    if settings.rocketmq.enabled:
        connection_count += 2 * settings.rocketmq.connections_max  # native threads have copies
    file_count = have_descriptors(connection_count + _OTHER_FILES)
    if file_count < connection_count + _OTHER_FILES:
        logger.warning(
            "this process may have %d files open, and its doors take connections for %d: when they "
            "come, some are closed without a word. Raise the limit (ulimit -n, LimitNOFILE=), or "
            "lower http.connections_max and rocketmq.connections_max",
            file_count,
            connection_count + _OTHER_FILES,
            extra={"action": "few_descriptors"},
        )


@contextmanager
def _watchdog(settings: Settings) -> Iterator[None]:
    hung_s = settings.owner.hung_call_s
    if not hung_s:
        yield
        return
    watchdog = Watchdog(hung_s)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()


async def _serve(
    settings: Settings, *, create_topics: bool, on_ready: Callable[[App], None] | None
) -> int:
    app = App(settings, create_topics=create_topics)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await app.start()
    assert app.admin is not None
    logger.info(
        "serving on %s, admin on port %d",
        " and ".join(_addresses(settings, app)),
        app.admin.port,
        extra={"action": "serving"},
    )
    if on_ready is not None:
        on_ready(app)
    stopped = asyncio.ensure_future(stop.wait())
    failed = asyncio.ensure_future(app.engine.failed())
    await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
    logger.info("stopping", extra={"action": "stopping"})
    stopped.cancel()
    await app.stop()
    if failed.done():
        raise failed.result()
    failed.cancel()
    return 0


def _addresses(settings: Settings, app: App) -> list[str]:
    door = app.http
    assert door is not None
    addresses = [] if door.port is None else [f"http://{settings.http.host}:{door.port}"]
    if door.unix_path is not None:
        addresses.append(f"unix:{door.unix_path}")
    if app.rocketmq is not None:
        addresses.append(f"rocketmq://{settings.rocketmq.host}:{app.rocketmq.port}")
    return addresses


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop when it is installed (extra `speed`); asyncio's own loop otherwise."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
