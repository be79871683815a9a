"""What an engine is told: plain values out of the settings, which alone have the defaults."""

from dataclasses import dataclass
from typing import Any, Final

from halfhitch.adapters.kafka.audit_topic import AuditOptions
from halfhitch.adapters.kafka.held_logs import HELD_AFTER_S
from halfhitch.service.checking.limits import DeskLimits
from halfhitch.service.owner.turn import OwnerLimits
from halfhitch.service.transactions.bounds import IntakeLimits

#: From the end of the owners until the group knows that their member joins again.
_JOIN_AGAIN_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """See config/ for what they mean to an operator."""

    bootstrap: str
    handle_keys: tuple[bytes, ...]
    instance: str
    topic_prefix: str
    partition_count: int
    replication_factor: int
    #: None: what becomes of transactions is not kept.
    audit: AuditOptions | None
    #: Who is told of traced transactions; None: nobody.
    spans_endpoint: str | None
    create_topics: bool
    allow_topics: tuple[str, ...]
    owner_enabled: bool
    owner_limits: OwnerLimits
    transaction_timeout_ms: int
    session_timeout_ms: int
    #: Static membership of the owners' group under this name; None: dynamic.
    group_instance_id: str | None
    message_bytes_max: int
    transaction_bytes_max: int
    intake_limits: IntakeLimits
    visible_wait_s: float
    desk_limits: DeskLimits
    give_up: str
    give_up_topics: tuple[str, ...]
    redis_url: str | None
    check_url: str | None
    check_url_groups: tuple[str, ...]
    check_url_networks: tuple[str, ...]
    check_url_token: str | None
    producer_options: dict[str, Any]
    consumer_options: dict[str, Any]
    admin_options: dict[str, Any]
    #: The internal topics are looked at so often while the engine runs.
    watch_s: float = 30.0
    #: A Kafka transaction that is open for longer in one of our logs or a target is told of.
    held_after_s: float = HELD_AFTER_S
    delivery_ms: int = 8_000
    stop_wait_s_max: float = 8.0

    @property
    def stop_wait_s(self) -> float:
        """Owners may take so long to end in good order when their partitions go to others.

        The group waits for this member as long as its session (see clients.member_consumer), and
        it has to join again in that time, too.
        """
        return min(self.stop_wait_s_max, self.session_timeout_ms / 1000 - _JOIN_AGAIN_S)
