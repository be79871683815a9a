"""What the engine is told, and doors about TLS: plain values out of the settings."""

from halfhitch.adapters.kafka.audit_topic import AuditOptions
from halfhitch.adapters.system import SystemClock
from halfhitch.config import Settings
from halfhitch.config.settings import AdminSettings, HttpSettings, RocketmqSettings
from halfhitch.core.check_rules import CheckRules
from halfhitch.doors.tls import ServerTls, TlsFiles
from halfhitch.engine.options import EngineOptions
from halfhitch.service.checking.limits import DeskLimits
from halfhitch.service.owner.turn import OwnerLimits
from halfhitch.service.transactions.bounds import IntakeLimits


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
        audit=_audit_options(settings),
        spans_endpoint=settings.tracing.endpoint,
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


def _audit_options(settings: Settings) -> AuditOptions | None:
    """How the audit topic is to be; None where there is to be none."""
    if not settings.audit.enabled:
        return None
    return AuditOptions(settings.audit.retention_h, settings.audit_copies)


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


def server_tls(
    door: str,
    chosen: HttpSettings | AdminSettings | RocketmqSettings,
    protocols: tuple[str, ...] = ("http/1.1",),
) -> ServerTls | None:
    """What a door speaks TLS with, if it does. Raises ConfigurationError."""
    if chosen.tls_cert is None:
        return None
    files = TlsFiles(
        door=door,
        certificate=chosen.tls_cert,
        key=chosen.tls_key,
        client_ca=chosen.tls_client_ca,
        clients=chosen.tls_clients,
        minimum=chosen.tls_minimum,
        protocols=protocols,
        tells_without_certificate="http/1.1" in protocols,
    )
    return ServerTls(files, SystemClock().wall_ms)
