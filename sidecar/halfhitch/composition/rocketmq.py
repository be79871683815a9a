"""The RocketMQ door out of the settings."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import Final

from halfhitch.access import Access
from halfhitch.adapters.native import carrier
from halfhitch.adapters.system import SystemClock
from halfhitch.composition.limits import rocketmq_limits, share
from halfhitch.composition.options import server_tls
from halfhitch.config import Settings
from halfhitch.config.rocketmq import access_secrets, advertised_address
from halfhitch.doors.rocketmq import RocketmqDoor, RocketmqOptions
from halfhitch.doors.rocketmq.lending import Lending
from halfhitch.doors.rocketmq.limits import Limits as RocketmqLimits
from halfhitch.doors.rocketmq.native import Native
from halfhitch.engine import Engine
from halfhitch.errors import HalfHitchError, KafkaUnavailable
from halfhitch.observability.metrics import Metrics
from halfhitch.ports import Observer
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.frame import language_name

logger = logging.getLogger(__name__)

#: How an answer begins, and what of it JSON has as words.
_REPLY_START: Final = (
    Struct(">hbh").pack(codes.SUCCESS, codes.ANSWERED_LANGUAGE, codes.ANSWERED_VERSION),
    language_name(codes.ANSWERED_LANGUAGE),
    codes.ANSWERED_VERSION,
)


def rocketmq_door(
    settings: Settings, engine: Engine, metrics: Metrics, access: Access
) -> RocketmqDoor:
    """Wired, not started. Raises ConfigurationError."""
    chosen = settings.rocketmq
    limits = rocketmq_limits(settings)
    door = RocketmqDoor(
        engine.transactions,
        engine.transactions.sends,
        engine.topic_directory,
        wall_ms=SystemClock().wall_ms,
        desk=engine.desk,
        unready_reasons=engine.unready_reasons,
        options=RocketmqOptions(
            host=chosen.host,
            port=chosen.port,
            advertised=advertised_address(chosen.advertised),
            broker_name=chosen.broker_name,
            access_secrets=access_secrets(chosen.access_keys),
            tls=server_tls("rocketmq", chosen, ()),
            tls_required=chosen.tls_required,
            create_topics=chosen.create_topics,
            create_partitions=chosen.create_partitions,
        ),
        limits=limits,
        on_refused=partial(metrics.connection_refused, "rocketmq"),
        # Each request must be signed then, and the native way looks at no signature.
        lending=None
        if chosen.access_keys or access.has_identities
        else native_way(engine, metrics, limits, carrier.load()),
        access=access,
    )
    metrics.rocketmq(door.snapshot)
    return door


def native_way(
    engine: Engine, observer: Observer, limits: RocketmqLimits, make: Callable[..., Native] | None
) -> Lending | None:
    """For requests that `make` (halfhitch-native's) can carry out; None where it does not fit."""
    if make is None:
        return None
    appends = engine.appends()
    library, options = carrier.library(), carrier.native_options(appends.config)
    if library is None or options is None:
        logger.info(
            "halfhitch-native is not used: %s",
            "this build of confluent-kafka has no librdkafka of its own"
            if library is None
            else "kafka.options ask for what calls back into Python",
            extra={"action": "native_unused"},
        )
        return None

    def error_of(code: int, number: int) -> HalfHitchError:
        topic = appends.op_topic if code == codes.END_TRANSACTION else appends.half_topic
        return carrier.native_error(number, topic)

    def seal_keys() -> Sequence[bytes]:
        try:
            return engine.transactions.seals().keys
        except KafkaUnavailable:
            return ()

    lending = Lending(
        partial(
            make,
            library,
            options,
            half_topic=appends.half_topic,
            op_topic=appends.op_topic,
            instance=appends.instance,
            reply_start=_REPLY_START,
            frame_bytes_max=limits.frame_bytes_max,
            body_bytes_max=limits.body_bytes_max,
            message_bytes_max=appends.message_bytes_max,
            in_flight_bytes_max=share(limits.in_flight_bytes_max),
        ),
        observer=observer,
        partition_count=appends.partition_count,
        owner_read_to=appends.decisions.owner_read_to,
        seal_keys=seal_keys,
        target_partitions=appends.target_partitions,
        is_free=engine.intake.is_free,
        error_of=error_of,
        traced=engine.transactions.traced,
        log=carrier.native_log,
    )
    appends.decisions.join(lending)
    engine.transactions.claim_elsewhere = lending.claim
    return lending
