"""The RocketMQ door: unmodified RocketMQ producers over the same service as the HTTP door."""

from halfhitch.doors.rocketmq.limits import Limits
from halfhitch.doors.rocketmq.server import RocketmqDoor, RocketmqOptions
from halfhitch.doors.rocketmq.stats import Snapshot

__all__ = [
    "Limits",
    "RocketmqDoor",
    "RocketmqOptions",
    "Snapshot",
]
