"""The RocketMQ door out of the settings."""

from halfhitch.adapters.system import SystemClock
from halfhitch.config import Settings
from halfhitch.config.rocketmq import access_secrets, advertised_address
from halfhitch.doors.rocketmq import Limits, RocketmqDoor, RocketmqOptions, server_context
from halfhitch.engine import Engine
from halfhitch.observability.metrics import Metrics


def rocketmq_door(settings: Settings, engine: Engine, metrics: Metrics) -> RocketmqDoor:
    """Wired, not started. Raises ConfigurationError."""
    chosen = settings.rocketmq
    tls = None if chosen.tls_cert is None else server_context(chosen.tls_cert, chosen.tls_key)
    door = RocketmqDoor(
        engine.transactions.singles,
        engine.target_topics,
        wall_ms=SystemClock().wall_ms,
        desk=engine.desk,
        unready_reasons=engine.unready_reasons,
        options=RocketmqOptions(
            host=chosen.host,
            port=chosen.port,
            advertised=advertised_address(chosen.advertised),
            broker_name=chosen.broker_name,
            access_secrets=access_secrets(chosen.access_keys),
            tls=tls,
            tls_required=chosen.tls_required,
            create_topics=chosen.create_topics,
            create_partitions=chosen.create_partitions,
        ),
        limits=Limits(
            body_bytes_max=settings.messages.bytes_max,
            connection_count_max=chosen.connections_max,
            in_flight_count_max=chosen.in_flight_max,
        ),
    )
    metrics.rocketmq(door.snapshot)
    return door
