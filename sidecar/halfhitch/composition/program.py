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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final

import msgspec

from halfhitch.adapters.descriptors import have_descriptors
from halfhitch.adapters.heap import give_back
from halfhitch.adapters.native import carrier
from halfhitch.adapters.watchdog import Watchdog, progress, resting
from halfhitch.composition.access import AccessKeysWatch, IdentitiesWatch, access_of
from halfhitch.composition.limits import http_limits
from halfhitch.composition.native import http_way
from halfhitch.composition.options import engine_options, server_tls
from halfhitch.composition.rocketmq import rocketmq_door
from halfhitch.config import Settings
from halfhitch.config.identities import known_access_keys, shared_token_hashes
from halfhitch.doors.admin.door import ADMIN_LIMITS, AdminDoor
from halfhitch.doors.http.server import HttpDoor
from halfhitch.doors.rocketmq import RocketmqDoor
from halfhitch.doors.tls_listening import handshakes_max
from halfhitch.engine import Engine
from halfhitch.errors import ConfigurationError, HalfHitchError
from halfhitch.observability import logging as log_setup
from halfhitch.observability.metrics import Metrics

logger = logging.getLogger(__name__)

_LAG_SAMPLE_S: Final = 0.5
#: Between two times that freed memory goes back to the system.
_GIVE_BACK_S: Final = 30.0
#: Files besides connections of the doors: Kafka's brokers several times, Redis, callbacks.
_OTHER_FILES: Final = 512
#: With fewer connections than these a door is of no use.
_DOOR_FILES_MIN: Final = 64


class App:
    """Engine, metrics and doors of one process. `await start()`, `await stop()`."""

    def __init__(self, settings: Settings, *, create_topics: bool = False) -> None:
        self._settings = settings
        self.metrics = Metrics()
        self.access = access_of(settings)
        self.metrics.access(self.access.numbers)
        path = settings.auth.identities_file
        self._identities = (
            None
            if path is None
            else IdentitiesWatch(
                self.access, path, known_access_keys(settings), shared_token_hashes(settings)
            )
        )
        self.engine = Engine(engine_options(settings, create_topics=create_topics), self.metrics)
        self._access_keys: AccessKeysWatch | None = None
        self._lag: asyncio.Task[None] | None = None
        self._giving_back: asyncio.Task[None] | None = None
        self.http: HttpDoor | None = None
        self.rocketmq: RocketmqDoor | None = None
        self.admin: AdminDoor | None = None

    async def start(self) -> None:
        """Open everything. Raises ConfigurationError when a door cannot be opened."""
        settings, engine = self._settings, self.engine
        # Before anything is under way: a certificate that is no good stops the start.
        admin_tls = server_tls("admin", settings.admin)
        http_tls = server_tls("http", settings.http)
        await engine.start()
        engine.intake.team_of = self.access.team_of
        self.metrics.membership(engine.membership)
        self.metrics.reach(engine.desk)
        self.metrics.queued(engine.queued_records)
        try:
            self.admin = AdminDoor(
                engine,
                self.metrics,
                [msgspec.to_builtins(value) for value in settings.describe()],
                settings.admin.host,
                settings.admin.port,
                access=self.access,
                allowed_hosts=settings.http.hosts,
                death_reasons=engine.death_reasons,
                operations=engine.operations,
                stories=engine.stories,
                tls=admin_tls,
            )
            await self.admin.start()
            limits = http_limits(settings)
            self.http = HttpDoor(
                engine.transactions,
                checks=engine.desk,
                host=settings.http.host,
                port=settings.http.port,
                unix_path=settings.http.socket,
                access=self.access,
                allowed_hosts=settings.http.hosts,
                limits=limits,
                on_request=self.metrics.http_request,
                on_refused=partial(self.metrics.connection_refused, "http"),
                tls=http_tls,
                lending=http_way(
                    engine,
                    self.metrics,
                    self.metrics.http_requests,
                    limits,
                    None if self.access.asks_for_tokens else carrier.load_http(),
                    transaction_bytes_max=settings.messages.transaction_bytes_max,
                ),
            )
            await self.http.start()
            if settings.rocketmq.enabled:
                self.rocketmq = rocketmq_door(settings, engine, self.metrics, self.access)
                await self.rocketmq.start()
                self._watch_keys(self.rocketmq)
        except BaseException:
            await self.stop()
            raise
        if self._identities is not None:
            self._identities.start()
        self._lag = asyncio.ensure_future(self._sample_lag())
        self._giving_back = asyncio.ensure_future(_give_back_memory())

    def _watch_keys(self, door: RocketmqDoor) -> None:
        path, identities = self._settings.rocketmq.access_key_file, self._identities
        if path is None:
            return

        def take(secrets: Mapping[str, str]) -> None:
            door.replace_access_secrets(secrets)
            if identities is not None:
                identities.keys_are(secrets.keys())

        self._access_keys = AccessKeysWatch(path, take)
        self._access_keys.start()

    def hurry(self) -> None:
        """A stop that is under way shall wait for no caller any more."""
        for door in (self.http, self.rocketmq):
            if door is not None:
                door.hurry()

    async def stop(self) -> None:
        """Drain, give partitions up, close."""
        self.engine.leave()
        drain_s = self._settings.drain.s_max
        await asyncio.gather(
            *(door.stop(drain_s) for door in (self.http, self.rocketmq) if door is not None)
        )
        for watch in (self._identities, self._access_keys):
            if watch is not None:
                watch.stop()
        await self.engine.stop()
        if self._lag is not None:
            self._lag.cancel()
            resting()
        if self._giving_back is not None:
            self._giving_back.cancel()
        if self.admin is not None:
            await self.admin.stop()

    async def _sample_lag(self) -> None:
        while True:
            progress()
            due_s = time.monotonic() + _LAG_SAMPLE_S
            await asyncio.sleep(_LAG_SAMPLE_S)
            self.metrics.loop_lag(max(0.0, time.monotonic() - due_s))


async def _give_back_memory() -> None:
    while True:
        await asyncio.sleep(_GIVE_BACK_S)
        await asyncio.to_thread(give_back)


def run(
    settings: Settings,
    *,
    create_topics: bool = False,
    on_ready: Callable[[App], None] | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. Logs to stderr."""
    log_setup.set_up(level=settings.log.level, form=settings.log.format, secrets=settings.secrets())
    try:
        settings = _with_files_for_connections(settings)
    except ConfigurationError as error:
        print(f"halfhitch: {error}", file=sys.stderr)  # noqa: T201 - the command's own answer
        return 1
    # Hundreds of thousands of long-lived records: the default would walk them all the time. A step
    # of an owner makes a hundred thousand objects, which are all in use at its end and then go.
    gc.set_threshold(200_000, 20, 100)
    with _watchdog(settings), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            return runner.run(_serve(settings, create_topics=create_topics, on_ready=on_ready))
        except HalfHitchError as error:
            print(f"halfhitch: {error}", file=sys.stderr)  # noqa: T201 - the command's own answer
            return 1


def _with_files_for_connections(settings: Settings) -> Settings:
    """Ask for as many files as the doors take connections; with fewer they take fewer.

    Never more than there are files for: what is accepted without one is closed without a word, and
    probes among it. Raises ConfigurationError when hardly any would be left for the doors.
    """
    http, rocketmq = settings.http.connections_max, settings.rocketmq.connections_max
    if not settings.rocketmq.enabled:
        rocketmq = 0
    http_copies = 1 if carrier.load_http() is None else 2
    door_files = http_copies * http + 2 * rocketmq  # native threads have copies
    handshakes = _handshake_files(settings)
    wanted = door_files + ADMIN_LIMITS.connection_count_max + handshakes + _OTHER_FILES
    file_count = have_descriptors(wanted)
    if file_count >= wanted:
        return settings
    others = min(_OTHER_FILES + handshakes, file_count // 4) + ADMIN_LIMITS.connection_count_max
    left = file_count - others
    raise_it = "Raise the limit (ulimit -n, LimitNOFILE= in systemd)"
    if left < min(_DOOR_FILES_MIN, door_files):
        raise ConfigurationError(
            f"This process may have {file_count} files open, which leaves nothing for "
            f"http.connections_max ({http}) and rocketmq.connections_max: {others} are for probes, "
            f"Kafka and Redis. {raise_it} to {wanted}."
        )
    fitting = max(1, left * http // door_files), max(1, left * rocketmq // door_files)
    logger.warning(
        "this process may have %d files open, and its doors want %d: http.connections_max is taken "
        "as %d and rocketmq.connections_max as %d, so that probes, Kafka and Redis have theirs. %s "
        "to %d, or lower both",
        file_count,
        wanted,
        fitting[0],
        fitting[1] if rocketmq else settings.rocketmq.connections_max,
        raise_it,
        wanted,
        extra={"action": "few_descriptors"},
    )
    replace = msgspec.structs.replace
    changed: dict[str, object] = {"http": replace(settings.http, connections_max=fitting[0])}
    if rocketmq:
        changed["rocketmq"] = replace(settings.rocketmq, connections_max=fitting[1])
    return replace(settings, **changed)


def _handshake_files(settings: Settings) -> int:
    """Those who have not finished theirs have no place of the door's connections yet."""
    rocketmq = settings.rocketmq
    counts = (
        (settings.admin.tls_cert, ADMIN_LIMITS.connection_count_max),
        (settings.http.tls_cert, settings.http.connections_max),
        (rocketmq.tls_cert if rocketmq.enabled else None, rocketmq.connections_max),
    )
    return sum(handshakes_max(count) for certificate, count in counts if certificate is not None)


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

    def told_to_stop() -> None:
        if stop.is_set():
            logger.info("told to stop again: nobody is waited for", extra={"action": "hurrying"})
            app.hurry()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop)
    await app.start()
    assert app.admin is not None
    logger.info(
        "serving on %s, admin on port %d",
        " and ".join(_addresses(settings, app)),
        app.admin.port,
        extra={"action": "serving"},
    )
    _say_who_is_trusted(settings, asks_for_tokens=app.access.asks_for_tokens)
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


def _say_who_is_trusted(settings: Settings, *, asks_for_tokens: bool) -> None:
    if not asks_for_tokens:
        logger.info(
            "one trust domain: whoever reaches a door may do everything, for every producer group; "
            "auth.tokens asks for a token, auth.identities_file tells teams apart",
            extra={"action": "one_trust_domain"},
        )
    if settings.kafka.options.get("ssl.endpoint.identification.algorithm") == "none":
        logger.warning(
            "any host with a certificate of the same authorities can pose as Kafka: "
            "kafka.verify_host_names is false, so a broker's need not name its host",
            extra={"action": "kafka_hosts_unverified"},
        )


def _addresses(settings: Settings, app: App) -> list[str]:
    door = app.http
    assert door is not None
    scheme = "http" if settings.http.tls_cert is None else "https"
    addresses = [] if door.port is None else [f"{scheme}://{settings.http.host}:{door.port}"]
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
