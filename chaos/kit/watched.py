"""Engines in the test's own process, watched as a scene is: truth, readers, sampler, verdict.

`Watched` is the small brother of a whole stage: one broker, engines without doors, and the same
readers and the same checker. It is what the checker's mutation tests break the system in.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chaos.kit.checker import Limits, Readings, Report, check
from chaos.kit.history import Message, Writer, read_history, wall_ms
from chaos.kit.log_model import LogModel
from chaos.kit.open_transactions import open_transactions
from chaos.kit.readers import READ_UNCOMMITTED, Tail, WatermarkSampler, read_final
from halfhitch.adapters.kafka.topics import ensure
from halfhitch.core.model import Resolution
from halfhitch.errors import HalfHitchError
from harness.checkers import Fate
from harness.engines import GROUP, PARTITION_COUNT, TARGET_PARTITION_COUNT, Site
from harness.kafka import admin_client, wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from chaos.kit.history import Identity, Truth
    from chaos.kit.readers import Sample
    from halfhitch.engine import Engine
    from halfhitch.service.api import OutgoingMessage

_VERB = {Fate.COMMITTED: "commit", Fate.ROLLED_BACK: "rollback"}
_RESOLUTION = {Fate.COMMITTED: Resolution.COMMIT, Fate.ROLLED_BACK: Resolution.ROLLBACK}


@dataclass(slots=True)
class Evidence:
    """All that the checker needs, so that a test may spoil a part of it."""

    truths: dict[Identity, Truth]
    model: LogModel
    readings: Readings
    samples: Sequence[Sample]
    limits: dict[str, Any] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)

    def report(self) -> Report:
        """The verdict."""
        limits = Limits(**self.limits)
        return check(self.truths, self.model, self.readings, self.samples, limits, self.counters)


class Watched:
    """One installation under watch. `start` it before the first engine; `evidence` ends it."""

    def __init__(self, site: Site, folder: Path, **limits: Any) -> None:
        self.site, self.folder, self.limits = site, folder, limits
        self._history = Writer(folder / "app.jsonl")
        names, bootstrap = site.names, site.bootstrap
        self.logs = Tail(bootstrap, [names.half, names.op])
        self.live = Tail(bootstrap, site.targets)
        self.hidden = Tail(bootstrap, site.targets, READ_UNCOMMITTED)
        self.marks = WatermarkSampler(
            bootstrap, names.half, names.op, PARTITION_COUNT, group=names.owner_group, every_s=0.1
        )
        self.resets_ms: list[int] = []

    def start(self) -> None:
        """Make the topics and begin to watch."""
        self.site.create_targets()
        ensure(
            admin_client(self.site.bootstrap),
            self.site.names,
            partition_count=PARTITION_COUNT,
            replication_factor=1,
        )
        for watcher in (self.logs, self.live, self.hidden, self.marks):
            watcher.start()

    def stop(self) -> None:
        """No more watching; what was seen stays."""
        for watcher in (self.logs, self.live, self.hidden, self.marks):
            watcher.stop()

    # -- what applications do --------------------------------------------------------------------

    async def prepare(
        self, engine: Engine, name: str, messages: Sequence[OutgoingMessage] | None = None
    ) -> str:
        """A transaction with this id, noted as an application would; gives its handle."""
        messages = self.site.pair(name) if messages is None else messages
        sent = [
            Message.of(m.topic, m.value, m.key, partition=m.partition, headers=m.headers)
            for m in messages
        ]
        call = self._history.begin("prepare", (GROUP, name), sent)
        prepared = await self.site.prepare(engine, messages, name)
        call.ok()
        return prepared.handle

    async def end(
        self, engine: Engine, name: str, handle: str, fate: Fate, *, wait_visible: bool = False
    ) -> None:
        """Ask for its end, and note what the answer was."""
        call = self._history.begin(_VERB[fate], (GROUP, name))
        try:
            await engine.transactions.end(handle, _RESOLUTION[fate], wait_visible=wait_visible)
        except HalfHitchError as error:
            call.info(error.code)
        else:
            call.ok()

    async def run(
        self, engine: Engine, name: str, fate: Fate, *, wait_visible: bool = False
    ) -> str:
        """From prepare to end."""
        handle = await self.prepare(engine, name)
        if fate in _VERB:
            await self.end(engine, name, handle, fate, wait_visible=wait_visible)
        return handle

    def checked(self, name: str, number: int, answer: str) -> None:
        """A check came to a producer, and was answered so."""
        self._history.begin("check", (GROUP, name), number=number).say("ok", answer=answer)

    def reset_watermarks(self) -> None:
        """As an operator would, and on record."""
        self.site.reset_watermarks()
        self.resets_ms.append(wall_ms())

    # -- the verdict -----------------------------------------------------------------------------

    async def evidence(self, **limits: Any) -> Evidence:
        """Read to the end and stop watching."""
        return await asyncio.to_thread(self._evidence, limits)

    def _evidence(self, limits: Mapping[str, Any]) -> Evidence:
        site = self.site
        still_open = open_transactions(
            site.bootstrap, prefix=site.names.owner_group, patience_s=10.0
        )
        for tail in (self.logs, self.live, self.hidden):
            tail.wait_for_the_end()
        self.marks.sample()
        self.stop()
        self._history.close()
        return Evidence(
            read_history(self.folder.glob("*.jsonl")),
            LogModel(self.logs.of(site.names.half), self.logs.of(site.names.op)),
            Readings(
                final=read_final(site.bootstrap, site.targets),
                committed=self.live.records,
                uncommitted=self.hidden.records,
                parked=read_final(site.bootstrap, [site.names.parked]),
                stalls=self.live.stalls,
                open_transactions=still_open,
                gaps=self.logs.gaps,
            ),
            self.marks.samples,
            {
                "partition_counts": dict.fromkeys(site.targets, TARGET_PARTITION_COUNT),
                "resets_ms": tuple(self.resets_ms),
                **self.limits,
                **limits,
            },
        )

    async def until_carried_out(self) -> None:
        """Until every acknowledged decision has its done mark, and its messages are visible."""

        def is_done() -> bool:
            model = LogModel(self.logs.of(self.site.names.half), self.logs.of(self.site.names.op))
            expected = 0
            for identity, truth in read_history(self.folder.glob("*.jsonl")).items():
                if Fate.PENDING not in truth.fates:
                    account = model.accounts.get(identity)
                    if account is None or not account.last.is_carried_out:
                        return False
                    expected += len(account.last.expected)
            return len(self.live.records) >= expected

        await asyncio.to_thread(wait_until, is_done, 30, interval_s=0.1, what="all done marks")

    async def until_sampled(self) -> None:
        """Until the stored watermarks were asked for after now."""
        count = len(self.marks.samples)
        await asyncio.to_thread(wait_until, lambda: len(self.marks.samples) > count + 1, 20)


@asynccontextmanager
async def watched(
    bootstrap: str, folder: Path, *, site: Site | None = None, **limits: Any
) -> AsyncIterator[Watched]:
    """A fresh installation, watched from before its first engine to `evidence`."""
    made = Watched(site or Site(bootstrap), folder, **limits)
    await asyncio.to_thread(made.start)
    try:
        yield made
    finally:
        await asyncio.to_thread(made.stop)
