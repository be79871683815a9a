"""What all connections of a RocketMQ door share."""

import asyncio
from dataclasses import dataclass

from halfhitch.doors.rocketmq.dispatch import Dispatcher
from halfhitch.doors.rocketmq.express import Express
from halfhitch.doors.rocketmq.limits import Limits
from halfhitch.doors.rocketmq.links import Questioning
from halfhitch.doors.rocketmq.load import Load
from halfhitch.service.checking.api import CheckDesk


@dataclass(frozen=True, slots=True)
class Surroundings:
    """One for a door."""

    dispatcher: Dispatcher
    desk: CheckDesk | None
    questioning: Questioning
    limits: Limits
    load: Load
    loop: asyncio.AbstractEventLoop
    #: host, or host:port, that clients are told; None: what they dialled.
    advertised: tuple[str, int | None] | None
    requires_tls: bool
    express: Express | None = None
