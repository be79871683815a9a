"""What an operator does to thousands at once: the names of all that match, one decision for all.

Each transaction gets what `OperationsService` would do to it alone, and an answer of its own. Those
whose half partition is owned here are looked up in one turn of each owner, and their decisions
share op records. For those of other instances Redis is asked once, the half logs are read once, and
once they are decided, the op logs: each of that takes seconds, for one as for a thousand.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from halfhitch.core.model import Identity, Resolution, ResolutionSource
from halfhitch.errors import BackendError, HalfHitchError, TransactionGone
from halfhitch.service.api import STATE_AFTER, Filter, ManyOutcome, NamesPage
from halfhitch.service.operators.operations import (
    ADVICE,
    OperationsService,
    check_reason,
    is_parked,
    not_found,
)
from halfhitch.service.operators.parts import FoundHalves, Searched
from halfhitch.service.operators.shown import matches
from halfhitch.service.transactions.end import refuse_loser
from halfhitch.service.transactions.first import LookedUp, first_told

logger = logging.getLogger(__name__)

Outcomes = dict[Identity, ManyOutcome]


class ManyOperations(OperationsService):
    """service.api.Operations, whole."""

    async def names(self, wanted: Filter) -> NamesPage:
        """See service.api.Operations."""
        parts = self._parts
        others = self._others()
        listed, total_count = await parts.owners.names(wanted)
        # Two half partitions may have one name; it is given once.
        found = {identity: stored_ms for stored_ms, identity in reversed(listed)}
        total_count -= len(listed) - len(found)
        doubts, missing = await self._doubts(others)
        now_ms = parts.clock.wall_ms()
        for partition, known in doubts.items():
            for doubt in known:
                shown = self._undecided(partition, doubt, now_ms)
                if doubt.identity not in found and matches(wanted, shown):
                    found[doubt.identity] = doubt.born_ms
                    total_count += 1
        names = sorted(found, key=found.__getitem__)[: wanted.count_max]
        return NamesPage(names, total_count, missing)

    async def decide_many(
        self, identities: Sequence[Identity], resolution: Resolution, *, reason: str, operator: str
    ) -> list[ManyOutcome]:
        """See service.api.Operations."""
        check_reason(reason, operator)
        began_s = self._parts.clock.monotonic_s()
        signed = f"{operator}: {reason}"
        pending = await self._parts.owners.halves_of(identities)
        here = {identity: FoundHalves(*found) for identity, found in pending.items()}
        outcomes = await self._decide_all_here(here, resolution, signed)
        elsewhere = [identity for identity in identities if identity not in here]
        if elsewhere:
            outcomes |= await self._decide_elsewhere(elsewhere, resolution, signed)
        elapsed_s = self._parts.clock.monotonic_s() - began_s
        for outcome in outcomes.values():
            if not isinstance(outcome, HalfHitchError):
                self._parts.observer.ended(resolution, ResolutionSource.OPERATOR, elapsed_s)
        logger.info(
            "%s decided %s of %d transactions at once, %d of them could not be: %s",
            operator,
            resolution.name.lower(),
            len(identities),
            sum(isinstance(outcome, HalfHitchError) for outcome in outcomes.values()),
            reason,
            extra={"action": "operator"},
        )
        return [outcomes[identity] for identity in identities]

    async def _decide_all_here(
        self, found: Mapping[Identity, FoundHalves], resolution: Resolution, signed: str
    ) -> Outcomes:
        async def decided(identity: Identity) -> str:
            await self._decide_here(found[identity], identity, resolution, signed)
            return STATE_AFTER[resolution].value

        return await _each(found, decided)

    async def _decide_elsewhere(
        self, identities: Sequence[Identity], resolution: Resolution, signed: str
    ) -> Outcomes:
        state = STATE_AFTER[resolution].value
        left: list[Identity] = []
        outcomes: Outcomes = {}
        for identity in identities:
            try:
                if self._stands(identity, resolution):
                    outcomes[identity] = state
                else:
                    left.append(identity)
            except HalfHitchError as error:
                outcomes[identity] = error
        seen_ms = self._parts.clock.wall_ms()
        try:
            searched = await self._search_elsewhere(left) if left else Searched({})
        except HalfHitchError as error:
            return outcomes | dict.fromkeys(left, error)
        found = searched.found
        missing = [identity for identity in left if identity not in found]
        outcomes |= await self._why_missing(missing, searched.trouble)

        async def stored(identity: Identity) -> str:
            await self._append(found[identity], identity, resolution, signed)
            return state

        appended = await _each(found, stored)
        outcomes |= appended
        durable = {
            identity: halves
            for identity, halves in found.items()
            if not isinstance(appended[identity], HalfHitchError)
        }
        return outcomes | await self._lost(durable, resolution, seen_ms)

    async def _why_missing(
        self, identities: Sequence[Identity], trouble: HalfHitchError | None
    ) -> Outcomes:
        """Of those that are in no half log, as far as these were read."""
        if not identities or trouble is not None:
            return dict.fromkeys(identities, trouble) if trouble is not None else {}
        try:
            parkings, left_out_count = await self._parts.parked.parkings()
            parked = {parking.identity for parking in parkings}
            if left_out_count:  # too many to be kept in mind: one that is named is looked for
                for identity in identities:
                    if identity not in parked and (await self._parts.parked.parkings(identity))[0]:
                        parked.add(identity)
        except HalfHitchError as error:
            return dict.fromkeys(identities, error)
        return {
            identity: is_parked(identity) if identity in parked else not_found(identity)
            for identity in identities
        }

    async def _lost(
        self, durable: Mapping[Identity, FoundHalves], resolution: Resolution, seen_ms: int
    ) -> Outcomes:
        """Other instances carry them out: where the logs say that ours was not the first."""
        by_partition: dict[int, dict[Identity, int]] = {}
        for identity, halves in durable.items():
            by_partition.setdefault(halves.partition, {})[identity] = halves.half_offsets[0]
        lost: Outcomes = {}
        for partition, half_offsets in by_partition.items():
            try:
                told = await self._parts.inquiry.look_up_many(partition, half_offsets, seen_ms)
            except BackendError as error:
                told = dict.fromkeys(half_offsets, error)
            for identity in half_offsets:
                why = _refusal(identity, told[identity], resolution)
                if why is not None:
                    lost[identity] = why
        return lost

    async def check_many(self, identities: Sequence[Identity]) -> list[ManyOutcome]:
        """See service.api.Operations."""
        pending = await self._parts.owners.halves_of(identities)
        gone: list[Identity] = []

        async def here(identity: Identity) -> str:
            partition = pending[identity][0]
            if not await self._parts.owners.check_now(partition, identity):
                gone.append(identity)
            return "pending"

        outcomes = await _each(pending, here)
        left = [each for each in identities if each not in pending] + gone
        if left:
            outcomes |= await self._check_many_elsewhere(left)
        return [outcomes[identity] for identity in identities]

    async def _check_many_elsewhere(self, identities: Sequence[Identity]) -> Outcomes:
        try:
            doubts, missing = await self._doubts_of(self._others(), identities)
            owners = await self._owners_of(doubts)
        except HalfHitchError as error:
            return dict.fromkeys(identities, error)

        async def handed_on(identity: Identity) -> str:
            self._hand_on(identity, doubts, missing, owners)
            return "pending"

        return await _each(identities, handed_on)


async def _each(
    identities: Collection[Identity], do: Callable[[Identity], Awaitable[str]]
) -> Outcomes:
    """All at once; one fails without the others."""

    async def one(identity: Identity) -> ManyOutcome:
        try:
            return await do(identity)
        except HalfHitchError as error:
            return error

    answers = await asyncio.gather(*(one(identity) for identity in identities))
    return dict(zip(identities, answers, strict=True))


def _refusal(identity: Identity, told: LookedUp, resolution: Resolution) -> HalfHitchError | None:
    """Why a stored decision does not count, or may not; None: it was the first."""
    if isinstance(told, TransactionGone):
        return not_found(identity)
    try:
        first = first_told(identity, told, advice=ADVICE)
        refuse_loser(identity, first, resolution, is_parked)
    except HalfHitchError as error:
        return error
    return None
