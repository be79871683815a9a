"""What doors may be asked for, out of the settings.

The admin door's bounds stand in doors/admin/door.py: none of them can be set.
"""

from typing import Final

from halfhitch.config import Settings
from halfhitch.doors.http.limits import Limits as HttpLimits
from halfhitch.doors.rocketmq.limits import Limits as RocketmqLimits

#: Places for producers; with more connections there are more.
_PRODUCERS_MIN: Final = 16_384
_PRODUCERS_OF_CONNECTION: Final = 16


def share(count: int) -> int:
    """What one of many may have of it: half, and then there is still room for others."""
    return max(1, count // 2)


def http_limits(settings: Settings) -> HttpLimits:
    """The data door's bounds out of the settings."""
    http = settings.http
    stream_count_max = share(http.connections_max)
    return HttpLimits(
        # A binary message of the full size must pass the JSON route too: base64 adds a third.
        body_bytes_max=settings.messages.bytes_max * 4 // 3 + 65_536,
        header_bytes_max=http.header_bytes_max,
        connection_count_max=http.connections_max,
        connection_peer_count_max=http.connections_peer_max or share(http.connections_max),
        # What one address may have, an identity may.
        connection_identity_count_max=max(share(http.connections_max), http.connections_peer_max),
        stream_count_max=stream_count_max,
        stream_group_count_max=http.streams_group_max or share(stream_count_max),
        # What one group may have, an identity may.
        stream_identity_count_max=max(share(stream_count_max), http.streams_group_max),
        in_flight_count_max=http.in_flight_max,
        receive_s=http.receive_s_max,
        idle_s=http.idle_s_max,
        unended_s=settings.checks.immunity_s,
    )


def rocketmq_limits(settings: Settings) -> RocketmqLimits:
    """What a RocketMQ door may be asked for, as the settings say."""
    chosen = settings.rocketmq
    producers_wanted = _PRODUCERS_OF_CONNECTION * chosen.connections_max
    producer_count_max = max(_PRODUCERS_MIN, producers_wanted)
    return RocketmqLimits(
        body_bytes_max=settings.messages.bytes_max,
        connection_count_max=chosen.connections_max,
        connection_peer_count_max=chosen.connections_peer_max or share(chosen.connections_max),
        # What one address may have, an identity may.
        connection_identity_count_max=max(
            share(chosen.connections_max), chosen.connections_peer_max
        ),
        in_flight_count_max=chosen.in_flight_max,
        in_flight_bytes_max=chosen.in_flight_bytes_max,
        producer_count_max=producer_count_max,
        producer_identity_count_max=share(producer_count_max),
    )
