"""halfhitch doctor: look at everything a sidecar needs, and say what to do.

Owns the order of the checks. Invariants: one failing check does not hide the others, unless they
need what it looked for; nothing is changed; every finding that is not ok says what to do next.
"""

import time
from fnmatch import fnmatchcase
from typing import Annotated, Any

import typer
from confluent_kafka import KafkaException

from halfhitch.adapters.kafka import held_logs, inspection
from halfhitch.adapters.kafka.audit_topic import verify_audit
from halfhitch.adapters.kafka.readers import inspect_readers
from halfhitch.adapters.kafka.rights import inspect_rights
from halfhitch.adapters.kafka.topics import Finding, Severity
from halfhitch.config import Purpose, Settings, rules
from halfhitch.errors import BackendError, ConfigurationError, HalfHitchError, KafkaUnavailable
from halfhitch.wire.topics import InternalTopics
from halfhitch_cli import findings
from halfhitch_cli.answers import elsewhere
from halfhitch_cli.app import OK, UNHEALTHY
from halfhitch_cli.client import AdminClient, TokenAsked
from halfhitch_cli.kafka import KafkaAdmin, audit_options
from halfhitch_cli.lazy import PlainCommand
from halfhitch_cli.options import Given, settings_command
from halfhitch_cli.output import Output, OutputForm
from halfhitch_cli.places import kafka_settings
from halfhitch_cli.speed import fast_parts

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_REDIS_WAIT_S = 3.0
#: Of two clocks that follow a time server.
_SKEW_S_MAX = 5.0
#: Partitions that are looked at; the internal ones come first.
_LOGS_MAX = 5_000


def doctor(
    given: Given,
    output: Output = OutputForm.TABLE,
    wait_s: Annotated[
        float, typer.Option("--wait-s", min=0.1, max=300, help="How long Kafka may take to answer.")
    ] = 10.0,
) -> int:
    """Check settings, Kafka, the internal topics, Redis and a running sidecar.

    Where Kafka is, a sidecar that runs is asked, unless it is said. Exit code 3 when something is
    broken; warnings do not count.
    """
    try:
        settings = given.load(Purpose.CLIENT)
    except ConfigurationError as error:
        found = [Finding("settings", Severity.FAIL, error.message, "Correct it and run again.")]
    else:
        found = _all(given, settings, wait_s)
    findings.show(output, found)
    return OK if findings.is_healthy(found) else UNHEALTHY


def _all(given: Given, settings: Settings, wait_s: float) -> list[Finding]:
    """Without Kafka's address, what needs none."""
    instance, asks_token = _instance(settings)
    unknown: ConfigurationError | None = None
    try:
        settings = kafka_settings(given)
    except ConfigurationError as error:
        unknown = error
    found = [
        _settings(settings, sidecar_runs=instance is not None, asks_token=asks_token),
        _speed(),
        *(_kafka(settings, wait_s) if unknown is None else [_no_kafka(unknown)]),
        *_redis(settings),
        _sidecar(settings),
    ]
    return findings.as_dev_has_it(found) if instance == findings.DEV_INSTANCE else found


def _no_kafka(error: ConfigurationError) -> Finding:
    return Finding(
        "Kafka", Severity.FAIL, f"Not looked at. {error.message}", "Then run this again."
    )


def _instance(settings: Settings) -> tuple[str | None, bool]:
    """The name of the sidecar that answers (None: none does, or it does not say).

    And whether one asks for a token that it was not given.
    """
    try:
        _, status = AdminClient.of(settings).get("/v1/status")
        return str(status["info"]["instance"]), False
    except TokenAsked:
        return None, True
    except (HalfHitchError, KeyError, TypeError):
        return None, False


def _settings(settings: Settings, *, sidecar_runs: bool, asks_token: bool) -> Finding:
    try:
        rules.check(settings, rules.SERVE_RULES)
    except ConfigurationError as error:
        if sidecar_runs:
            text = "Enough to look at the running sidecar, which has settings of its own."
            return Finding("settings", Severity.OK, text)
        if asks_token:
            return Finding(
                "settings",
                Severity.WARN,
                f"The sidecar on {AdminClient.of(settings).address} asks for a token.",
                "Set HALFHITCH_AUTH_TOKENS, and more can be told.",
            )
        return Finding(
            "settings",
            Severity.WARN,
            f"A sidecar would not start with these settings: {error.message}",
            "Fine on a machine that runs none.",
        )
    given = len(settings.sources)
    return Finding("settings", Severity.OK, f"Complete; {given} given, the rest are defaults.")


def _speed() -> Finding:
    """Nothing is wrong without them: this is no warning. One that does not fit is a mistake."""
    parts = fast_parts()
    trouble = next((part.trouble for part in parts if part.trouble), None)
    if trouble is not None:
        return Finding("fast parts", Severity.WARN, f"{trouble}.", "")
    here = ", ".join(part.what for part in parts if part.is_here)
    remedy = " ".join(f"To get {part.what}: {part.way}." for part in parts if not part.is_here)
    text = f"In use where they fit: {here}." if here else "Everything runs in plain Python."
    return Finding("fast parts", Severity.OK, text, remedy)


def _brokers(count: int) -> str:
    return "1 broker" if count == 1 else f"{count} brokers"


def _kafka(settings: Settings, wait_s: float) -> list[Finding]:
    with KafkaAdmin(settings, wait_s=wait_s) as kafka:
        try:
            cluster = kafka.reach()
        except KafkaUnavailable as error:
            return [Finding("Kafka", Severity.FAIL, error.message, "Then run this again.")]
        found = [
            Finding(
                "Kafka",
                Severity.OK,
                f"Cluster {cluster.cluster_id} answers, {_brokers(cluster.broker_count)}.",
            )
        ]
        found += _same_cluster(settings, cluster.cluster_id)
        try:
            names = InternalTopics(settings.topics.prefix)
            stored_offsets = kafka.stored_offsets(names.owner_group)
            found += inspection.inspect(
                kafka.client,
                stored_offsets,
                names,
                transaction_timeout_ms=settings.owner.transaction_timeout_ms,
                session_timeout_ms=settings.owner.session_timeout_ms,
                message_bytes_max=settings.messages.bytes_max,
                wait_s=wait_s,
            )
            if (audit := audit_options(settings)) is not None:
                found += verify_audit(kafka.client, names, audit, wait_s=wait_s)
            found += inspection.inspect_memory(kafka.client, stored_offsets, names, wait_s=wait_s)
            bounds = kafka.stored_offsets(names.bounds_group)
            found += inspection.inspect_bounds(bounds, names, wait_s=wait_s)
            found += inspection.inspect_targets(
                kafka.client,
                names,
                settings.topics.allow,
                message_bytes_max=settings.messages.bytes_max,
                wait_s=wait_s,
            )
            found += inspect_rights(
                kafka.client,
                kafka.stored_offsets,
                names,
                settings.topics.allow,
                has_audit=settings.audit.enabled,
                wait_s=wait_s,
            )
            found += _held(kafka, settings, names, wait_s)
        except HalfHitchError as error:
            found.append(Finding("Kafka", Severity.FAIL, error.message, "Run this again."))
    return found


def _same_cluster(settings: Settings, cluster_id: str) -> list[Finding]:
    """Two installations looked at together would make one that is well out of two that are not."""
    door = AdminClient.of(settings)
    try:
        text = elsewhere(door.get("/v1/status")[1]["info"], cluster_id, door.address)
    except (HalfHitchError, KeyError, TypeError):
        return []  # nobody, or it does not say; see `_sidecar`
    if text is None:
        return []
    remedy = "Give --server and --kafka-bootstrap of one installation."
    return [Finding("sidecar's Kafka", Severity.FAIL, text, remedy)]


def _held(
    kafka: KafkaAdmin, settings: Settings, names: InternalTopics, wait_s: float
) -> list[Finding]:
    """Logs whose readers somebody holds back, both internal ones and what may be a target; and
    readers of the latter who do not let themselves be held back."""
    try:
        known = kafka.client.list_topics(timeout=wait_s).topics
    except KafkaException as error:
        text = f"The topics could not be listed: {error}."
        return [Finding("held logs", Severity.FAIL, text, "Run this again.")]
    internal = [topic for topic in (names.half, names.op) if topic in known]
    targets = [
        topic
        for topic in known
        if topic not in names.reserved
        and not topic.startswith("__")
        and any(fnmatchcase(topic, pattern) for pattern in settings.topics.allow)
    ]
    logs = [(topic, p) for topic in [*internal, *sorted(targets)] for p in known[topic].partitions]
    held = held_logs.inspect_held(
        kafka.client,
        logs[:_LOGS_MAX],
        bootstrap=settings.kafka.bootstrap,
        options=settings.kafka.options.for_client("admin"),
        always=internal,
    )
    readers = inspect_readers(
        kafka.client,
        kafka.stored_offsets,
        [log for log in logs[:_LOGS_MAX] if log[0] not in internal],
        without=frozenset((names.owner_group, names.bounds_group, names.skips_group)),
        wait_s=wait_s,
    )
    return held + readers


def _redis(settings: Settings) -> list[Finding]:
    """As a sidecar would use it: also by Sentinel, in a cluster, over TLS."""
    if settings.redis.url is None:
        said = "Not looked at: no redis.url is set here. Transactions need none."
        return [Finding("Redis", Severity.OK, said)]
    from redis.exceptions import ConnectionError as Unreachable
    from redis.exceptions import RedisClusterException, RedisError

    from halfhitch.adapters.redis import connect
    from halfhitch.adapters.redis.address import parse

    try:
        address = parse(settings.redis.url.reveal())
    except ConfigurationError as error:
        return [Finding("Redis", Severity.FAIL, error.message, "Correct it and run again.")]
    client = None
    try:
        client = connect.connect(address, wait_s=_REDIS_WAIT_S)
        client.ping()
        before_ms = time.time_ns() // 1_000_000
        theirs_ms = connect.server_time_ms(client)
        return [
            Finding("Redis", Severity.OK, f"Answers PING ({address.label})."),
            *_clock(theirs_ms, before_ms, time.time_ns() // 1_000_000),
            *_memory(client),
        ]
    except (RedisError, RedisClusterException, OSError) as error:
        if isinstance(error, RedisClusterException):  # no node of it was reached
            error = Unreachable(str(error))
        remedy = "Without Redis transactions go on."
        return [Finding("Redis", Severity.FAIL, connect.sentence(error, address), remedy)]
    finally:
        connect.close(client)


def _clock(theirs_ms: int, before_ms: int, after_ms: int) -> list[Finding]:
    """Instances tell by Redis' clock who is there; ages go by their own.

    It was asked between two looks at our clock: only what lies outside of both is a difference.
    """
    ahead_s = max(0, before_ms - theirs_ms) / 1000 - max(0, theirs_ms - after_ms) / 1000
    if abs(ahead_s) < _SKEW_S_MAX:
        return []
    how = "ahead of" if ahead_s > 0 else "behind"
    return [
        Finding(
            "clock",
            Severity.WARN,
            f"This machine's clock is {abs(ahead_s):.0f} s {how} that of Redis.",
            "Let both follow the same time server (NTP): ages and checks go by these clocks.",
        )
    ]


def _memory(client: Any) -> list[Finding]:
    """What happens when it is full. Whoever may not ask is told nothing."""
    from redis import RedisError

    try:
        answer = client.info("memory")
    except RedisError:
        return []
    # A cluster answers for each of its servers.
    infos = answer.values() if all(isinstance(v, dict) for v in answer.values()) else [answer]
    policies = sorted(
        {str(info.get("maxmemory_policy", "")) for info in infos} - {"", "noeviction"}
    )
    if not policies:
        return []
    return [
        Finding(
            "Redis memory",
            Severity.WARN,
            f"When it is full it forgets keys (maxmemory-policy {', '.join(policies)}), and with "
            "them what instances have told each other of undecided transactions.",
            "Set maxmemory-policy to noeviction, and enough maxmemory.",
        )
    ]


def _sidecar(settings: Settings) -> Finding:
    door = AdminClient.of(settings)
    try:
        status, answer = door.get("/readyz")
    except BackendError as error:
        return Finding("sidecar", Severity.WARN, error.message, "")
    except HalfHitchError as error:
        return Finding("sidecar", Severity.FAIL, error.message, "")
    degraded = answer.get("degraded", []) if isinstance(answer, dict) else []
    if status < 300 and degraded:
        return Finding(
            "sidecar",
            Severity.WARN,
            f"The sidecar on {door.address} is ready, but {'; '.join(degraded)}.",
            "Transactions go on; docs/operations.md says what does not.",
        )
    if status < 300:
        return Finding("sidecar", Severity.OK, f"Ready on {door.address}.")
    reasons = "; ".join((answer or {}).get("reasons", [])) or f"status {status}"
    return Finding(
        "sidecar",
        Severity.FAIL,
        f"The sidecar on {door.address} is not ready: {reasons}.",
        "Its log tells more.",
    )


app.command(cls=PlainCommand)(settings_command(doctor, asks_sidecar=True))
