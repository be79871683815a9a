"""Producer groups that are reached by callback.

Owns `CallbackLinks`: one link per group, made when the group is first heard of, all over one
client. To the desk such a group is always live; whether anybody is there each check shows, and one
that could not be delivered is not counted.

An answer COMMIT or ROLLBACK goes the way of every decision, through `end`, and only then is the
check settled. Where that fails the check has had no answer: the next one asks again.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatchcase
from typing import Final

from halfhitch.adapters.callback.answer import NoAnswer, read
from halfhitch.adapters.callback.client import CallbackClient
from halfhitch.adapters.callback.connection import CallbackFailed
from halfhitch.adapters.callback.resolving import Resolve, system_resolve
from halfhitch.adapters.callback.target import Target
from halfhitch.core.model import Identity, ProducerGroup, Resolution
from halfhitch.errors import (
    BackendError,
    ContraryDecision,
    TransactionGone,
    TransactionParked,
)
from halfhitch.service.checking.api import CheckDesk, CheckOutcome
from halfhitch.service.reasons import kept_reason
from halfhitch.wire.check import Check, encode

_log = logging.getLogger(__name__)

#: Carries a decision out: Transactions.end with source check.
End = Callable[[str, Resolution], Awaitable[object]]

_RESOLUTIONS: Final = {
    CheckOutcome.COMMIT: Resolution.COMMIT,
    CheckOutcome.ROLLBACK: Resolution.ROLLBACK,
}
#: Groups that are remembered, those the callback does not answer for included.
GROUPS_MAX: Final = 10_000
#: Of one group: a group that hangs must leave room for others.
_LINK_IN_FLIGHT_MAX: Final = 64
_IN_FLIGHT_MAX: Final = 512
_QUIET_S: Final = 30.0


class CallbackLinks:
    """Makes links; used on the event loop only. `notice` groups, and `stop` at the end."""

    def __init__(
        self,
        target: Target,
        *,
        desk: CheckDesk,
        end: End,
        groups: Sequence[str] = ("*",),
        token: str | None = None,
        answer_s: float = 10.0,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve = system_resolve,
    ) -> None:
        self.name = f"callback {target.name}"
        self._desk = desk
        self._end = end
        self._patterns = tuple(groups)
        self._client = CallbackClient(
            target, token=token, answer_s=answer_s, tls=tls, resolve=resolve
        )
        #: At most GROUPS_MAX; None: the callback does not answer for this one.
        self._links: dict[str, CallbackLink | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopped = False
        self._failed_count = 0
        self._quiet_until_s = 0.0

    def notice(self, producer_group: str) -> None:
        """This group has transactions. Cheap when it is known: it is said with every prepare."""
        if producer_group not in self._links and not self._is_stopped:
            self._meet(ProducerGroup(producer_group))

    def for_group(self, producer_group: str) -> "CallbackLink | None":
        """The group's link; None if the callback does not answer for it."""
        self.notice(producer_group)
        return self._links.get(producer_group)

    async def stop(self) -> None:
        """No checks any more; those under way are given up, and the desk hears of it."""
        self._is_stopped = True
        for link in list(self._links.values()):
            if link is not None:
                self._desk.disconnect(link)
        self._links.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._client.close()

    def _meet(self, producer_group: ProducerGroup) -> None:
        if len(self._links) >= GROUPS_MAX:
            self._forget_one()
        if any(fnmatchcase(producer_group, pattern) for pattern in self._patterns):
            link = CallbackLink(self, producer_group)
            self._links[producer_group] = link
            self._desk.connect(link)
        else:
            self._links[producer_group] = None

    def _forget_one(self) -> None:
        """The one met first of those with nothing under way.

        It comes back with its next prepare, or when it is to be asked (`CheckBack`); names that
        were made up do not.
        """
        for producer_group, link in self._links.items():
            if link is None or not link.in_flight_count:
                del self._links[producer_group]
                if link is not None:
                    self._desk.disconnect(link)
                return

    # What links call.

    def take(self, link: "CallbackLink", check: Check) -> bool:
        """Begin to ask, if there is room."""
        is_known = self._links.get(link.producer_group) is link
        if not is_known or self._is_stopped or len(self._tasks) >= _IN_FLIGHT_MAX:
            return False
        task = asyncio.get_running_loop().create_task(self._ask(link, check))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _ask(self, link: "CallbackLink", check: Check) -> None:
        outcome, reason = CheckOutcome.NO_ANSWER, None
        try:
            outcome, reason = await self._outcome(check)
        except Exception:  # noqa: BLE001 (a bug of ours must not leave the desk waiting)
            _log.exception("asking by callback failed", extra={"action": "callback_failed"})
        finally:
            link.in_flight_count -= 1
        self._desk.settle(check.identity, outcome, reason)

    async def _outcome(self, check: Check) -> tuple[CheckOutcome, str | None]:
        identity = check.identity
        try:
            reply = await self._client.post(encode(check))
            outcome, reason = read(reply.status, reply.body, identity[1])
        except CallbackFailed as failure:
            self._complain(identity, str(failure))
            return failure.outcome, kept_reason(str(failure))
        except NoAnswer as failure:
            self._complain(identity, str(failure))
            return CheckOutcome.NO_ANSWER, kept_reason(str(failure))
        if outcome in _RESOLUTIONS:
            outcome = await self._decide(check, outcome)
        return outcome, reason

    async def _decide(self, check: Check, outcome: CheckOutcome) -> CheckOutcome:
        try:
            await self._end(check.handle, _RESOLUTIONS[outcome])
        except BackendError:
            return CheckOutcome.NO_ANSWER  # perhaps stored, perhaps not: asked again
        except (ContraryDecision, TransactionGone, TransactionParked):
            return CheckOutcome.DECIDED
        return outcome

    def _complain(self, identity: Identity, trouble: str) -> None:
        """Now and then, with the last case as an example: there may be hundreds a second."""
        self._failed_count += 1
        now_s = asyncio.get_running_loop().time()
        if now_s < self._quiet_until_s:
            return
        self._quiet_until_s = now_s + _QUIET_S
        failed_count, self._failed_count = self._failed_count, 0
        _log.warning(
            "%s gave no answer to %d checks, lastly of transaction %r of group %r: %s",
            self.name,
            failed_count,
            identity[1],
            identity[0],
            trouble,
            extra={"action": "callback_without_answer"},
        )


class CallbackLink:
    """A ProducerLink: the way to one group."""

    __slots__ = ("_links", "_producer_group", "in_flight_count")

    def __init__(self, links: CallbackLinks, producer_group: ProducerGroup) -> None:
        self._links = links
        self._producer_group = producer_group
        self.in_flight_count = 0

    @property
    def producer_group(self) -> ProducerGroup:
        """Whom it leads to."""
        return self._producer_group

    @property
    def name(self) -> str:
        """The address, without its query."""
        return self._links.name

    @property
    def at_once(self) -> int:
        """A group that hangs must leave room for others."""
        return _LINK_IN_FLIGHT_MAX

    def offer(self, check: Check) -> bool:
        """Ask now, unless too much is under way already."""
        if self.in_flight_count >= _LINK_IN_FLIGHT_MAX or not self._links.take(self, check):
            return False
        self.in_flight_count += 1
        return True
