"""What an operator does to thousands at once: the names of all that match, one decision for all.

Each transaction gets what `OperationsService` would do to it alone, and an answer of its own. Those
whose half partition is owned here are looked up in one turn of each owner, and their decisions
share op records. Those of other instances are looked for in the half log one by one, a few at a
time: that takes seconds for each.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from halfhitch.core.model import Identity, Resolution, ResolutionSource
from halfhitch.errors import HalfHitchError
from halfhitch.service.api import STATE_AFTER, Filter, ManyOutcome, NamesPage
from halfhitch.service.operators.operations import (
    LISTED_MAX,
    FoundHalves,
    OperationsService,
    check_reason,
)
from halfhitch.service.operators.shown import matches

logger = logging.getLogger(__name__)

#: Of those that others own: each is a search in Kafka.
_ELSEWHERE_AT_ONCE: Final = 4


class ManyOperations(OperationsService):
    """service.api.Operations, whole."""

    async def names(self, wanted: Filter) -> NamesPage:
        """See service.api.Operations."""
        parts = self._parts
        owned = parts.owners.owned()
        found, total_count = await parts.owners.names(wanted)
        others = [p for p in range(parts.partition_count()) if p not in owned]
        doubts, missing = await self._doubts(others)
        now_ms = parts.clock.wall_ms()
        for partition, known in doubts.items():
            if len(known) >= LISTED_MAX:
                missing.append(partition)  # Redis was not asked for more
            for doubt in known:
                if matches(wanted, self._undecided(partition, doubt, now_ms)):
                    found.append((doubt.born_ms, doubt.identity))
                    total_count += 1
        found.sort(key=lambda one: one[0])
        names = [identity for _, identity in found[: wanted.count_max]]
        return NamesPage(names, total_count, sorted(missing))

    async def decide_many(
        self, identities: Sequence[Identity], resolution: Resolution, *, reason: str, operator: str
    ) -> list[ManyOutcome]:
        """See service.api.Operations."""
        check_reason(reason, operator)
        parts = self._parts
        began_s = parts.clock.monotonic_s()

        async def here(identity: Identity, found: FoundHalves) -> str:
            await self._append(found, identity, resolution, f"{operator}: {reason}")
            self._stands_in(found.partition, identity, resolution)
            elapsed_s = parts.clock.monotonic_s() - began_s
            parts.observer.ended(resolution, ResolutionSource.OPERATOR, elapsed_s)
            return STATE_AFTER[resolution].value

        async def elsewhere(identity: Identity) -> str:
            ended = await self.decide(*identity, resolution, reason=reason, operator=operator)
            return ended.state.value

        outcomes = await self._each(identities, here, elsewhere)
        logger.info(
            "%s decided %s of %d transactions at once, %d of them could not be: %s",
            operator,
            resolution.name.lower(),
            len(identities),
            sum(isinstance(outcome, HalfHitchError) for outcome in outcomes),
            reason,
            extra={"action": "operator"},
        )
        return outcomes

    async def check_many(self, identities: Sequence[Identity]) -> list[ManyOutcome]:
        """See service.api.Operations."""

        async def here(identity: Identity, found: FoundHalves) -> str:
            if await self._parts.owners.check_now(found.partition, identity):
                return "pending"
            return await elsewhere(identity)

        async def elsewhere(identity: Identity) -> str:
            await self.check(*identity)
            return "pending"

        return await self._each(identities, here, elsewhere)

    async def _each(
        self,
        identities: Sequence[Identity],
        here: Callable[[Identity, FoundHalves], Awaitable[str]],
        elsewhere: Callable[[Identity], Awaitable[str]],
    ) -> list[ManyOutcome]:
        pending = await self._parts.owners.halves_of(identities)
        places = asyncio.Semaphore(_ELSEWHERE_AT_ONCE)

        async def one(identity: Identity) -> ManyOutcome:
            try:
                found = pending.get(identity)
                if found is not None:
                    return await here(identity, FoundHalves(*found))
                async with places:
                    return await elsewhere(identity)
            except HalfHitchError as error:
                return error

        return await asyncio.gather(*(one(identity) for identity in identities))
