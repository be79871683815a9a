"""Which decision of a transaction is the first, where nobody here can say it at once.

An owner here is waited for, also while it takes over: it tells once it has read far enough. Where
none works, or that takes too long, the logs are read.
"""

import asyncio
from asyncio import AbstractEventLoop, Future
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from halfhitch.core.model import Identity, Resolution
from halfhitch.core.standing import Standing
from halfhitch.errors import (
    BackendError,
    HalfHitchError,
    KafkaUnavailable,
    OutcomeUnknown,
    TransactionGone,
)

#: Whoever asks the logs is told nothing after this: each part of a reading may take ten seconds,
#: and readings for others may come before it.
_LOGS_S: Final = 15.0
#: Of a transaction that its owner knows nothing of, or a decision alone.
_UNSEEN: Final = (Standing.UNKNOWN, Standing.EARLY)


class Place(NamedTuple):
    """Where a transaction and one of its decisions lie. An owner reads them in that order."""

    partition: int
    half_offset: int  # the first half as its producer knows it
    op_offset: int


#: First decision, if any, and whether it is carried out; or why that cannot be said of this one.
LookedUp = tuple[Resolution | None, bool] | HalfHitchError


class Inquiry(Protocol):
    """Looks a transaction up in the logs, for instances that do not own its partition."""

    async def look_up(
        self, partition: int, identity: Identity, half_offset: int
    ) -> tuple[Resolution | None, bool]:
        """First decision, if any, and whether it is carried out.

        Raises TransactionGone; TransactionReused when the half is on record as another message.
        """
        ...

    async def look_up_many(
        self, partition: int, half_offsets: Mapping[Identity, int], seen_ms: int | None = None
    ) -> dict[Identity, LookedUp]:
        """Each as `look_up` does; of those that are done since, also where no message is left.

        `seen_ms`: all were in the half log then, by the clock here. Raises KafkaUnavailable.
        """
        ...


class Readers(Protocol):
    """The owners of this instance."""

    def has_read(self, place: Place) -> bool | None:
        """Whether what lies there was read; None: nobody works there here, nor is about to."""
        ...

    def standing(self, partition: int, identity: Identity, half_offset: int) -> Standing | None:
        """What the owner here knows; UNKNOWN also when the partition is not worked on here.

        None: it was read here and ended longer ago than is remembered.
        """
        ...


class _Asked(NamedTuple):
    half_offset: int
    told: "Future[LookedUp]"


class FirstDecisions:
    """On the event loop, but for `look_soon`."""

    def __init__(self, readers: Readers, inquiry: Inquiry, *, wait_s: float) -> None:
        self._loop: AbstractEventLoop | None = None  # of those who wait
        self._readers = readers
        self._inquiry = inquiry
        self._wait_s = wait_s
        self._waiting: dict[Future[bool], Place] = {}
        self._is_to_look = False
        #: Those who ask the logs next, by half partition; they share one reading.
        self._next: dict[int, dict[Identity, _Asked]] = {}
        self._reading: dict[int, asyncio.Task[None]] = {}

    async def find(
        self, place: Place, identity: Identity, *, advice: str, is_patient: bool = True
    ) -> Resolution | None:
        """The first decision; the one that is stored at `place` has been confirmed.

        `is_patient`: it waits for an owner here that takes over. None: its owner has read that and
        none counts. Raises TransactionGone, TransactionReused;
        OutcomeUnknown when the logs cannot be read.
        """
        wait_s = self._wait_s if is_patient else 0.0
        if await self._is_read(place, wait_s):
            standing = self._readers.standing(place.partition, identity, place.half_offset)
            if standing is None:
                raise gone(identity)
            if standing not in _UNSEEN:  # else its owner went in between, or there is no half
                return standing.resolution
        try:
            async with asyncio.timeout(_LOGS_S):
                told = await self._look_up(place, identity)
        except TimeoutError as error:
            late = KafkaUnavailable(f"the logs were not read within {_LOGS_S:g} s")
            raise first_unknown(identity, late, advice=advice) from error
        except BackendError as error:
            raise first_unknown(identity, error, advice=advice) from error
        return first_told(identity, told, advice=advice)

    async def _look_up(self, place: Place, identity: Identity) -> LookedUp:
        """Asked after the decision was stored, so by a reading that begins after that.

        A reading of its own for each would keep hundreds waiting where a log is held: each takes
        a thread until it gives up.
        """
        partition, half_offset, _ = place
        while True:
            asked = self._next.setdefault(partition, {})
            one = asked.get(identity)
            if one is None or one.half_offset == half_offset:
                break
            await asyncio.wait([one.told])  # another transaction of that name is asked about
        if one is None:
            one = asked[identity] = _Asked(half_offset, asyncio.get_running_loop().create_future())
        if partition not in self._reading:
            self._reading[partition] = asyncio.ensure_future(self._read(partition))
        return await asyncio.shield(one.told)

    async def _read(self, partition: int) -> None:
        """Until nobody asks any more."""
        try:
            while asked := self._next.pop(partition, None):
                half_offsets = {identity: one.half_offset for identity, one in asked.items()}
                try:
                    found = await self._inquiry.look_up_many(partition, half_offsets)
                    for identity, one in asked.items():
                        one.told.set_result(found[identity])
                except Exception as error:  # noqa: BLE001 - each of them is to be told
                    for one in asked.values():
                        if not one.told.done():
                            one.told.set_exception(error)
                            one.told.exception()  # perhaps nobody waits any more
                finally:
                    for one in asked.values():
                        one.told.cancel()  # no effect on those that were told
        finally:
            del self._reading[partition]

    async def _is_read(self, place: Place, wait_s: float) -> bool:
        """Wait for an owner here; False: there is none, or it takes too long."""
        self._loop = asyncio.get_running_loop()
        news: Future[bool] = self._loop.create_future()
        self._waiting[news] = place
        try:
            # Asked only after waiting has begun: what is read in between is seen by one of both.
            is_read = self._readers.has_read(place)
            if is_read is False:
                is_read = await asyncio.wait_for(news, wait_s)
        except TimeoutError:
            return False
        finally:
            del self._waiting[news]
        return is_read is True

    def look_soon(self, _: object = None) -> None:
        """An owner here has read something, has come or has gone; from any thread."""
        if self._waiting and not self._is_to_look and self._loop is not None:
            self._is_to_look = True
            self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        self._is_to_look = False
        for news, place in self._waiting.items():
            is_read = self._readers.has_read(place)
            if is_read is not False and not news.done():
                news.set_result(is_read is True)


def first_told(identity: Identity, told: LookedUp, *, advice: str) -> Resolution:
    """The first decision of one that is stored, by what the logs say of it.

    Raises OutcomeUnknown where they do not; TransactionGone, TransactionReused.
    """
    if isinstance(told, BackendError):
        raise first_unknown(identity, told, advice=advice) from told
    if isinstance(told, HalfHitchError):
        raise told
    if told[0] is None:  # it was put back, perhaps as what it had been decided before
        unread = KafkaUnavailable("the log does not say it yet")
        raise first_unknown(identity, unread, advice=advice)
    return told[0]


def first_unknown(identity: Identity, error: BackendError, *, advice: str) -> OutcomeUnknown:
    """The error of whoever cannot be told whether a stored decision counts."""
    return OutcomeUnknown(
        f"the decision for {identity[1]} is stored; whether it is the first one is not known "
        f"({error.message}): {advice}"
    )


def gone(identity: Identity) -> TransactionGone:
    """The error of whoever comes too late to be told."""
    return TransactionGone(
        f"transaction {identity[1]} ended so long ago that how it ended is no longer known here"
    )
