"""What the admin door shows: probes, metrics, status. What operators can change: operations.py.

Owns SHOWN and the handlers behind it. The probes are the only routes that need no token. They are
answered at once, however many other requests are being worked on: a busy sidecar is not a dead one.
Metrics tell of all producer groups, so they are for whoever may observe all; the state is for
whoever may observe any, without the names and numbers of others; settings are for admins. Reasons
may name any group or topic: where there are identities, only who may observe all is told them.

The System is asked on the event loop. The rendering of metrics runs in a thread of its own: those
of the event loop are where requests look into Kafka, for seconds.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import Final, Protocol, TypeVar

import msgspec

from halfhitch.access import Caller, Right
from halfhitch.doors.http.handlers import Handler
from halfhitch.doors.http.replies import NO_CONTENT, json_reply, text_reply
from halfhitch.doors.http.requests import Request
from halfhitch.doors.http.router import Route
from halfhitch.service.api import PartitionState, System

_RETRY: Final = b"Retry-After: 1\r\n"
#: In the place of each reason, for whoever may not know of what groups and topics it tells.
_UNTOLD: Final = "/v1/status tells it to an identity that may observe all groups"
_encode = msgspec.json.Encoder().encode

#: The route that monitoring scrapes: it has places of its own (places.py).
SCRAPED: Final = "metrics"
#: Any query is passed over: monitoring adds some of its own.
SHOWN: Final[tuple[Route, ...]] = (
    Route(method="GET", pattern="/livez", name="livez", is_open=True, reads_query=True),
    Route(method="GET", pattern="/readyz", name="readyz", is_open=True, reads_query=True),
    Route(method="GET", pattern="/metrics", name=SCRAPED, reads_query=True),
    Route(method="GET", pattern="/v1/status", name="status", may_wait=True, reads_query=True),
    Route(
        method="GET", pattern="/v1/partitions", name="partitions", may_wait=True, reads_query=True
    ),
    Route(method="GET", pattern="/v1/producers", name="producers", may_wait=True, reads_query=True),
    Route(method="GET", pattern="/v1/config", name="config", may_wait=True, reads_query=True),
    Route(method="GET", pattern="/v1/openapi.yaml", name="openapi"),
)


class Instruments(Protocol):
    """What the door needs of the metrics."""

    content_type: str
    content_type_with_examples: str

    def render(
        self, partitions: Sequence[PartitionState] = (), *, with_examples: bool = False
    ) -> bytes:
        """All metrics as text, or as OpenMetrics with traces; blocks for milliseconds."""
        ...


class Scrapes:
    """Renders one scrape after another, in a thread that does nothing else."""

    def __init__(self, metrics: Instruments) -> None:
        self._metrics = metrics
        self._thread: ThreadPoolExecutor | None = None  # with the first one

    async def reply(self, partitions: Sequence[PartitionState], *, with_examples: bool) -> bytes:
        """The answer to a scrape: see Instruments."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="metrics")
        loop = asyncio.get_running_loop()
        metrics = self._metrics
        render = partial(metrics.render, partitions, with_examples=with_examples)
        text = await loop.run_in_executor(self._thread, render)
        kind = metrics.content_type_with_examples if with_examples else metrics.content_type
        return text_reply(kind, text)

    def stop(self) -> None:
        """What is being rendered ends soon; nobody waits for it."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None


def wants_openmetrics(accept: bytes) -> bool:
    """Whether a scraper takes OpenMetrics 1.0, and likes plain text no better."""
    weights = {b"application/openmetrics-text": 0.0, b"text/plain": 0.0}
    for one in accept.lower().split(b","):
        kind, *rest = [part.strip() for part in one.split(b";")]
        if kind not in weights or b"version=0.0.1" in rest:  # a draft, of years ago
            continue
        asked = [part[2:] for part in rest if part.startswith(b"q=")]
        try:
            weight = float(asked[0]) if asked else 1.0
        except ValueError:
            weight = 0.0
        weights[kind] = max(weights[kind], weight)
    wanted, plain = weights.values()
    return wanted > 0 and wanted >= plain


def shown_handlers(
    *,
    system: System,
    scrapes: Scrapes,
    settings_view: Sequence[Mapping[str, object]],
    death_reasons: Callable[[], list[str]],
    has_identities: bool = False,
) -> dict[str, Handler]:
    """By route name; `death_reasons` tells why only a restart can help (empty: alive).

    `has_identities`: whoever asks without a token is told no reasons.
    """

    def livez(_: Request) -> bytes:
        reasons = death_reasons()
        return (
            json_reply(503, _encode({"alive": False, "reasons": reasons}))
            if reasons
            else NO_CONTENT
        )

    def readyz(_: Request) -> bytes:
        reasons = _told(system.unready_reasons(), everything=not has_identities)
        if reasons:
            return json_reply(503, _encode({"ready": False, "reasons": reasons}), _RETRY)
        degraded = _told(system.degraded_reasons(), everything=not has_identities)
        if degraded:  # ready all the same: whoever takes it out of service makes things worse
            return json_reply(200, _encode({"ready": True, "degraded": degraded}))
        return NO_CONTENT

    async def show_metrics(request: Request) -> bytes:
        request.caller.require_all()
        with_examples = wants_openmetrics(request.fields.get(b"accept", b""))
        return await scrapes.reply(system.partitions(), with_examples=with_examples)

    async def status(request: Request) -> bytes:
        request.caller.require_somewhere(Right.OBSERVE)
        everything = request.caller.sees_all
        reasons = _told(system.unready_reasons(), everything=everything)
        info = system.info()
        if not everything and info.get("membership_trouble"):
            info = {**info, "membership_trouble": _UNTOLD}
        state = {
            "ready": not reasons,
            "reasons": reasons,
            "degraded": _told(system.degraded_reasons(), everything=everything),
            "info": info,
            "partitions": _visible(system.partitions(), request.caller),
        }
        return json_reply(200, _encode(state))

    async def partitions(request: Request) -> bytes:
        request.caller.require_somewhere(Right.OBSERVE)
        seen = _visible(system.partitions(), request.caller)
        return json_reply(200, _encode({"partitions": seen}))

    async def config(request: Request) -> bytes:
        request.caller.require_admin()
        return json_reply(200, _encode({"settings": settings_view}))

    return {
        "livez": livez,
        "readyz": readyz,
        SCRAPED: show_metrics,
        "status": status,
        "partitions": partitions,
        "producers": partial(_producers, system),
        "config": config,
        "openapi": _contract(),
    }


def _contract() -> Handler:
    contract = files(__package__).joinpath("openapi.yaml").read_bytes()
    reply = text_reply("application/yaml", contract)
    return lambda _: reply


async def _producers(system: System, request: Request) -> bytes:
    request.caller.require_somewhere(Right.OBSERVE)
    may = partial(request.caller.may, Right.OBSERVE)
    groups = [group for group in system.producers() if may(group.producer_group)]
    return json_reply(200, _encode({"groups": groups}))


def _told(reasons: Sequence[str], *, everything: bool) -> list[str]:
    return list(reasons) if everything else [_UNTOLD] * len(reasons)


def _visible(states: Sequence[PartitionState], caller: Caller) -> Sequence[PartitionState]:
    """Without the groups that the caller may not observe, the topics of those, and reasons."""
    if caller.sees_all:
        return states
    return [
        replace(
            state,
            trouble=None if state.trouble is None else _UNTOLD,
            troubles=_told(state.troubles, everything=False),
            pending_by_group=_of(state.pending_by_group, partial(caller.may, Right.OBSERVE)),
            oldest_age_by_group=_of(state.oldest_age_by_group, partial(caller.may, Right.OBSERVE)),
            waiting_by_topic=_of(state.waiting_by_topic, caller.may_send_to),
        )
        for state in states
    ]


_Number = TypeVar("_Number", int, float)


def _of(numbers: Mapping[str, _Number], may_see: Callable[[str], bool]) -> dict[str, _Number]:
    return {name: number for name, number in numbers.items() if may_see(name)}
