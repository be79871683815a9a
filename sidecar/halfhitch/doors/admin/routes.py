"""What the admin door shows: probes, metrics, status. What operators can change: operations.py.

Owns SHOWN and the handlers behind it. The probes are the only routes that need no token. They are
answered at once, however many other requests are being worked on: a busy sidecar is not a dead one.

The System is asked on the event loop, the rendering of metrics runs in a thread.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from halfhitch.doors.http.handlers import Handler
from halfhitch.doors.http.replies import NO_CONTENT, json_reply, text_reply
from halfhitch.doors.http.requests import Request
from halfhitch.doors.http.router import Route
from halfhitch.service.api import PartitionState, System

_RETRY: Final = b"Retry-After: 1\r\n"
_encode = msgspec.json.Encoder().encode

#: Any query is passed over: monitoring adds some of its own.
SHOWN: Final[tuple[Route, ...]] = (
    Route(method="GET", pattern="/livez", name="livez", is_open=True, reads_query=True),
    Route(method="GET", pattern="/readyz", name="readyz", is_open=True, reads_query=True),
    Route(method="GET", pattern="/metrics", name="metrics", may_wait=True, reads_query=True),
    Route(method="GET", pattern="/v1/status", name="status", may_wait=True, reads_query=True),
    Route(
        method="GET", pattern="/v1/partitions", name="partitions", may_wait=True, reads_query=True
    ),
    Route(method="GET", pattern="/v1/config", name="config", may_wait=True, reads_query=True),
)


class Instruments(Protocol):
    """What the door needs of the metrics."""

    content_type: str

    def render(self, partitions: Sequence[PartitionState] = ()) -> bytes:
        """All metrics as text; blocks for milliseconds."""
        ...


def shown_handlers(
    *,
    system: System,
    metrics: Instruments,
    settings_view: Sequence[Mapping[str, object]],
    death_reasons: Callable[[], list[str]],
) -> dict[str, Handler]:
    """By route name; `death_reasons` tells why only a restart can help (empty: alive)."""

    def livez(_: Request) -> bytes:
        reasons = death_reasons()
        return (
            json_reply(503, _encode({"alive": False, "reasons": reasons}))
            if reasons
            else NO_CONTENT
        )

    def readyz(_: Request) -> bytes:
        reasons = system.unready_reasons()
        if reasons:
            return json_reply(503, _encode({"ready": False, "reasons": reasons}), _RETRY)
        degraded = system.degraded_reasons()
        if degraded:  # ready all the same: whoever takes it out of service makes things worse
            return json_reply(200, _encode({"ready": True, "degraded": degraded}))
        return NO_CONTENT

    async def show_metrics(_: Request) -> bytes:
        text = await asyncio.to_thread(metrics.render, system.partitions())
        return text_reply(metrics.content_type, text)

    async def status(_: Request) -> bytes:
        reasons = system.unready_reasons()
        state = {
            "ready": not reasons,
            "reasons": reasons,
            "degraded": system.degraded_reasons(),
            "info": system.info(),
            "partitions": system.partitions(),
        }
        return json_reply(200, _encode(state))

    async def partitions(_: Request) -> bytes:
        return json_reply(200, _encode({"partitions": system.partitions()}))

    async def config(_: Request) -> bytes:
        return json_reply(200, _encode({"settings": settings_view}))

    return {
        "livez": livez,
        "readyz": readyz,
        "metrics": show_metrics,
        "status": status,
        "partitions": partitions,
        "config": config,
    }
