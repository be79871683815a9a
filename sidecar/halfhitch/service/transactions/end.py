"""One decision on its way into the op log: what is known against it before, and after.

Owns the rule of the first decision as far as it can be told at once. `Deciding.begin` asks what is
known here and appends; once the append is durable `Begun.check` says whether the decision counts.
"""

from asyncio import Future
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from halfhitch.core.model import Identity, Resolution, ResolutionSource
from halfhitch.core.standing import Standing
from halfhitch.errors import (
    CommittedInPart,
    ContraryDecision,
    HalfHitchError,
    OutcomeUnknown,
    RequestError,
    TransactionParked,
    TransactionReused,
)
from halfhitch.service.api import STATE_AFTER, TransactionState
from halfhitch.service.transactions.asked import UnderWay, may_count
from halfhitch.service.transactions.dependencies import Dependencies
from halfhitch.service.transactions.first import Place, gone
from halfhitch.service.transactions.op_appends import Decision
from halfhitch.wire.handle import Handle

#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_COMMIT: Final = Resolution.COMMIT
_COMMITTING: Final = Standing.COMMITTING
_PARK: Final = Resolution.PARK
_ROLLBACK: Final = Resolution.ROLLBACK
_UNKNOWN: Final = Standing.UNKNOWN


@dataclass(slots=True)
class Begun:
    """A decision that is being stored."""

    identity: Identity
    requested: Resolution
    stored: "Future[int]"  # its op offset
    decided: Resolution | None  # known here before it was asked for
    rival: UnderWay | None  # was under way before it
    #: An equal one that covers fewer messages stands; whether this one came in time, its done mark
    #: says.
    extends: bool = field(default=False, kw_only=True)
    #: An owner here knew what it had read. Else others may have decided, and what is remembered
    #: here says nothing of them.
    has_owner: bool = field(default=True, kw_only=True)
    #: What came before it here was perhaps forgotten, or in another order than is remembered.
    is_late: bool = field(default=False, kw_only=True)

    @property
    def is_disputed(self) -> bool:
        """Once it is stored: whether only the log can tell if it counts."""
        if self.decided is not None:
            return False
        if self.is_late or self.rival is None:
            return self.is_late
        kinds = _may_win(self.rival, self.requested)
        return len(kinds) > 1 or not (self.has_owner or self.requested in kinds)

    def check(self) -> None:
        """Once it is stored: raises when an earlier decision stands, or may stand."""
        if self.is_disputed:
            raise disputed(self.identity, advice="ask for its status")
        first = self.decided
        if first is None and self.rival is not None:
            first = _may_win(self.rival, self.requested).pop()
        refuse_loser(self.identity, first, self.requested)


class Deciding:
    """The rules of an end, for every door."""

    def __init__(
        self,
        parts: Dependencies,
        *,
        is_prepared_again: Callable[[Identity], bool] = lambda _: False,
    ) -> None:
        """`is_prepared_again`: it was prepared here before, so the half that an end speaks of may
        be a later one.
        """
        self._parts = parts
        self._is_prepared_again = is_prepared_again

    def begin(
        self,
        known: Handle,
        identity: Identity,
        resolution: Resolution,
        source: ResolutionSource,
        reason: str | None = None,
        *,
        is_awaited: bool = True,
    ) -> Begun | None:
        """Store the decision; None: an equal one stands already.

        Raises TransactionGone; TransactionReused when it is said of other messages.

        `is_awaited`: somebody waits for the answer.
        """
        partition, decisions = known.partition, self._parts.decisions
        owners = self._parts.owners
        read_to = owners.op_read_to(partition)
        standing, rival = self._known(known, identity)
        decided = standing.resolution
        has_owner = standing is not _UNKNOWN or None not in (read_to, owners.op_read_to(partition))
        is_late = decided is None and (
            (rival is not None and decisions.went_both_ways(partition, identity))
            or self._is_late(known, identity, read_to if has_owner else None)
        )
        count = len(known.half_offsets)
        extends = False
        if decided is resolution:
            if not self._covers_more(partition, identity, resolution, count):
                return None
            if standing is not _COMMITTING:
                raise committed_in_part(identity)
            decided, extends = None, True
        decision = Decision(identity, resolution, count, known.half_offsets, source, reason)
        # A decision that is known to lose is stored all the same: the owner puts it on record.
        stored = decisions.append(
            partition, decision, is_awaited=is_awaited, has_lost=decided is not None
        )
        return Begun(
            identity,
            resolution,
            stored,
            decided,
            rival,
            extends=extends,
            has_owner=has_owner,
            is_late=is_late,
        )

    def _is_late(self, known: Handle, identity: Identity, read_to: int | None) -> bool:
        """Whether something was perhaps decided here that nobody here knows any more, or yet.

        Only where an owner here will know it: elsewhere a stored decision is told as stored.
        `read_to`: an owner here knew all that lies below that.
        """
        partition, half_offset = known.partition, known.half_offsets[0]
        is_doubtful = self._parts.decisions.has_forgotten(partition, half_offset, read_to) or (
            read_to is None and self._is_prepared_again(identity)
        )
        if not is_doubtful:
            return False
        return self._parts.owners.has_read(Place(partition, half_offset, 0)) is not None

    def _known(self, known: Handle, identity: Identity) -> tuple[Standing, UnderWay | None]:
        """What its owner here knows, and the first decision that this one has perhaps not read.

        Raises TransactionGone; TransactionReused when the handle is that of other messages.
        """
        partition, decisions = known.partition, self._parts.decisions
        self.refuse_reused(known, identity)
        rival = decisions.under_way(partition, identity)
        # Asked afterwards: what is not told there any more the owner has read.
        standing = self._parts.owners.standing(partition, identity, known.half_offsets[0])
        if standing is None:
            raise gone(identity)
        if rival is None and standing is _UNKNOWN:
            # The owner may have begun to take over again in between, and knows nothing any more.
            rival = decisions.under_way(partition, identity)
        return standing, rival

    def _covers_more(
        self, partition: int, identity: Identity, resolution: Resolution, count: int
    ) -> bool:
        """Than the equal commit that stands already."""
        if resolution is not _COMMIT or count == 1:
            return False
        return count > self._parts.owners.covered_count(partition, identity)

    async def confirm(
        self,
        known: Handle,
        identity: Identity,
        resolution: Resolution,
        op_offset: int,
        *,
        is_patient: bool,
    ) -> bool:
        """Of a decision that is stored there: whether it counts, by its owner or by the logs.

        Gives whether it covers more than the first, as far as that is known: see `Begun.extends`.
        `is_patient`: as `FirstDecisions.find` has it.

        For those who ask seldom. Raises ContraryDecision, TransactionParked, TransactionReused,
        TransactionGone (there is no such transaction); OutcomeUnknown when the logs cannot be read.
        """
        place = Place(known.partition, known.half_offsets[0], op_offset)
        first = await self._parts.firsts.find(
            place, identity, advice="ask again", is_patient=is_patient
        )
        self.refuse_reused(known, identity)
        refuse_loser(identity, first, resolution)
        return self._covers_more(known.partition, identity, resolution, len(known.half_offsets))

    def refuse_reused(self, known: Handle, identity: Identity) -> None:
        """Raises TransactionReused when the handle is that of messages which were dropped."""
        if self._parts.owners.is_reused(known.partition, known.half_offsets):
            raise reused(identity)

    def decided(self, known: Handle, identity: Identity) -> Resolution | None:
        """The decision as far as it is known here at once.

        Raises TransactionGone; TransactionReused when the handle is that of other messages.
        """
        standing, rival = self._known(known, identity)
        if standing.resolution is not None or rival is None:
            return standing.resolution
        found = may_count(rival.order)
        if len({one.resolution for one in found}) > 1:
            raise disputed(identity, advice="ask for its status")
        # One alone of whose fate nobody knows has perhaps decided nothing.
        is_known = any(one.is_stored is not False for one in found)
        return found[0].resolution if is_known else None

    def refuse_rolled_back(self, partition: int, identity: Identity) -> TransactionState:
        """A prepare under an id that was rolled back would be acknowledged and then dropped.

        Gives the state as far as it is known here: the prepare may be a late repeat.
        """
        standing = self._parts.owners.standing(partition, identity, -1)
        decided = None if standing is None else standing.resolution
        if decided is None and self._parts.decisions.was_rolled_back(partition, identity):
            raise rolled_back_here(identity)
        if decided is _ROLLBACK:
            raise contrary(identity, decided, advice="; prepare again under a new id")
        if standing is not None and standing.is_parked:
            return TransactionState.PARKED
        return TransactionState.PENDING if decided is None else STATE_AFTER[decided]

    def refused(
        self, identity: Identity | None, source: ResolutionSource, error: HalfHitchError
    ) -> None:
        """An end is answered with this error."""
        self._parts.observer.end_refused(error.code)
        if identity is not None and isinstance(error, RequestError):
            # Decided by somebody else: there is nothing to ask any more.
            self._parts.on_decided(identity, None, source)


def given_up(identity: Identity) -> TransactionParked:
    """The error of whoever comes after it was given up."""
    return TransactionParked(
        f"transaction {identity[1]} was given up before: its messages lie on the parked topic. "
        "This decision is on record and counts when an operator puts it back (halfhitch parked "
        "resume)"
    )


def committed_in_part(identity: Identity) -> CommittedInPart:
    """The error of whoever has added messages to what was committed already."""
    return CommittedInPart(
        f"transaction {identity[1]} was committed, by a check or an operator, before its last "
        "messages were added: the earlier ones are visible, the last ones never will be; send "
        "them under a new id"
    )


def reused(identity: Identity) -> TransactionReused:
    """The error of whoever uses an id for other messages than the first ones."""
    return TransactionReused(
        f"transaction id {identity[1]!r} of group {identity[0]!r} stands for other messages "
        "already, and those stand: use a new id for these, or repeat exactly the same ones (and "
        "to add to a transaction, the newest handle)"
    )


def refuse_loser(
    identity: Identity,
    first: Resolution | None,
    requested: Resolution,
    parked: Callable[[Identity], HalfHitchError] = given_up,
) -> None:
    """Raise unless the first decision is the one that was asked for, or none is known.

    `parked` makes the error of whoever comes after a giving up.
    """
    if first is _PARK:
        raise parked(identity)
    if first is not None and first is not requested:
        raise contrary(identity, first, requested)


def _may_win(rival: UnderWay, requested: Resolution) -> set[Resolution]:
    """Once the one that was asked for is stored: the first one in the log is one of these."""
    found = may_count(rival.order)
    kinds = {one.resolution for one in found}
    if not any(one.is_stored for one in found):
        kinds.add(requested)  # ours may be the first in the log
    return kinds


def disputed(identity: Identity, *, advice: str) -> OutcomeUnknown:
    """The error of whoever cannot be told which of contrary decisions is the first in the log."""
    return OutcomeUnknown(
        f"which decision of transaction {identity[1]} came first is not known here: another "
        f"one was under way, or lies too far back; {advice}"
    )


def rolled_back_here(identity: Identity) -> ContraryDecision:
    """The error of whoever prepares under an id whose roll-back its owner has perhaps not read."""
    return ContraryDecision(
        f"transaction {identity[1]} was rolled back here a moment ago, so a message that is "
        "prepared under this id now may never go out: prepare again under a new id",
        decided=STATE_AFTER[_ROLLBACK].value,
        requested=TransactionState.PENDING.value,
    )


def contrary(
    identity: Identity,
    decided: Resolution,
    requested: Resolution | None = None,
    *,
    advice: str = "",
) -> ContraryDecision:
    """The error of whoever comes second: with an end, or (None) with messages."""
    first = STATE_AFTER[decided].value
    later = TransactionState.PENDING if requested is None else STATE_AFTER[requested]
    return ContraryDecision(
        f"transaction {identity[1]} is {first}: that decision came first and stands{advice}",
        decided=first,
        requested=later.value,
    )
