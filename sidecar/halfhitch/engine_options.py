"""What an engine is told: plain values, with the defaults of the settings."""

import socket
from dataclasses import dataclass, field
from typing import Final

from halfhitch.adapters.kafka.held_logs import HELD_AFTER_S
from halfhitch.service.bounds import IntakeLimits
from halfhitch.service.checking.limits import DeskLimits
from halfhitch.service.owner import OwnerLimits

#: From the end of the owners until the group knows that their member joins again.
_JOIN_AGAIN_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """See config/ for what they mean to an operator."""

    bootstrap: str
    handle_keys: tuple[bytes, ...]
    instance: str = field(default_factory=socket.gethostname)
    topic_prefix: str = ""
    partition_count: int = 4
    replication_factor: int = 1
    create_topics: bool = False
    allow_topics: tuple[str, ...] = ("*",)
    owner_enabled: bool = True
    owner_limits: OwnerLimits = field(default_factory=OwnerLimits)
    transaction_timeout_ms: int = 15_000
    session_timeout_ms: int = 10_000
    #: Static membership of the owners' group under this name; None: dynamic.
    group_instance_id: str | None = None
    #: The internal topics are looked at so often while the engine runs.
    watch_s: float = 30.0
    #: A Kafka transaction that is open for longer in one of our logs or a target is told of.
    held_after_s: float = HELD_AFTER_S
    delivery_ms: int = 8_000
    message_bytes_max: int = 1_000_000
    transaction_bytes_max: int = 33_554_432
    intake_limits: IntakeLimits = field(default_factory=IntakeLimits)
    visible_wait_s: float = 30.0
    stop_wait_s_max: float = 8.0
    desk_limits: DeskLimits = field(default_factory=DeskLimits)
    give_up: str = "park"
    give_up_topics: tuple[str, ...] = ()
    redis_url: str | None = None
    check_url: str | None = None
    check_url_groups: tuple[str, ...] = ("*",)
    check_url_networks: tuple[str, ...] = ()
    check_url_token: str | None = None
    producer_options: dict[str, str] = field(default_factory=dict)
    consumer_options: dict[str, str] = field(default_factory=dict)
    admin_options: dict[str, str] = field(default_factory=dict)

    @property
    def stop_wait_s(self) -> float:
        """Owners may take so long to end in good order when their partitions go to others.

        The group waits for this member as long as its session (see clients.member_consumer), and
        it has to join again in that time, too.
        """
        return min(self.stop_wait_s_max, self.session_timeout_ms / 1000 - _JOIN_AGAIN_S)
