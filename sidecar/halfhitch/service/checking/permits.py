"""How many checks of each producer group may be under way: permits, under one lock.

A permit is granted to an owner's thread, handed over with a check, and freed once the check is
settled; so what lies in memory is never more than what was granted. Nothing is ever done under the
lock but counting.

How many a group is granted follows what it can answer: a producer that takes 256 checks and answers
40 of them in time would use up the numbers of the others for nothing. Silence halves the group's
window, at most once in the time for an answer; answers widen it again.

Not known here: who the producers are. The desk says whether there are any, and whether they have
no room (`hold_back`).
"""

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from halfhitch.service.checking.api import CheckOutcome
from halfhitch.service.checking.breaker import Breaker, BreakerLimits, BreakerState
from halfhitch.wire.check import Check

_GOOD = frozenset(
    {
        CheckOutcome.COMMIT,
        CheckOutcome.ROLLBACK,
        CheckOutcome.UNKNOWN,
        # Mostly the producer's own doing: its answer went to another instance.
        CheckOutcome.DECIDED,
    }
)


_WINDOW_MIN: Final = 4.0
#: The window grows by so many with each windowful of answers.
_GROWTH: Final = 4.0


@dataclass(slots=True)
class _Account:
    """One group's."""

    breaker: Breaker
    touched_s: float
    window: float
    shrunk_s: float = -math.inf
    granted_count: int = 0
    outstanding_count: int = 0
    is_live_here: bool = False
    is_held_back: bool = False


@dataclass(frozen=True, slots=True)
class GroupPermits:
    """For people."""

    granted_count: int
    outstanding_count: int
    window_count: int  # so many may be under way now
    breaker: BreakerState
    opens_in_s: float | None


class Permits:
    """Any method may be called from any thread."""

    def __init__(
        self,
        *,
        in_flight_max: int,
        answer_s: float,
        breaker: BreakerLimits,
        dice: Callable[[], float],
    ) -> None:
        self._in_flight_max = in_flight_max
        self._answer_s = answer_s
        self._breaker_limits = breaker
        self._dice = dice
        self._lock = threading.Lock()
        self._accounts: dict[str, _Account] = {}

    def is_live_here(self, group: str) -> bool:
        """Whether this instance has producers of the group itself."""
        account = self._accounts.get(group)
        return account is not None and account.is_live_here

    def take(self, group: str, wanted_count: int, now_s: float) -> int:
        """Grant up to so many."""
        with self._lock:
            account = self._account(group, now_s)
            if account.is_held_back:
                return 0
            room = int(account.window) - account.granted_count - account.outstanding_count
            if room <= 0 or wanted_count <= 0:
                return 0
            count = account.breaker.take(min(wanted_count, room), now_s)
            account.granted_count += count
            return count

    def give_back(self, group: str, count: int) -> None:
        """Granted, and not used."""
        with self._lock:
            account = self._accounts.get(group)
            if account is not None and count > 0:
                account.granted_count = max(0, account.granted_count - count)
                account.breaker.unused(count)

    def hand_over(self, checks: Sequence[Check], now_s: float) -> list[int]:
        """Each check uses one permit; gives the generation in which each leaves."""
        generations = []
        with self._lock:
            for check in checks:
                account = self._account(check.identity[0], now_s)
                account.granted_count = max(0, account.granted_count - 1)
                account.outstanding_count += 1
                generations.append(account.breaker.generation)
        return generations

    def settled(
        self, group: str, generation: int, now_s: float, outcome: CheckOutcome | None
    ) -> None:
        """One check is under way no more; None: what became of it says nothing of the group."""
        with self._lock:
            account = self._account(group, now_s)
            account.outstanding_count = max(0, account.outstanding_count - 1)
            if outcome is None:
                account.breaker.unused(1)
            elif outcome in _GOOD:
                account.breaker.good()
                wider = account.window + _GROWTH / account.window
                account.window = min(wider, self._in_flight_max)
            else:
                if outcome is CheckOutcome.SILENT and now_s - account.shrunk_s > self._answer_s:
                    account.shrunk_s = now_s
                    floor = min(_WINDOW_MIN, self._in_flight_max)
                    account.window = max(account.window / 2, floor)
                account.breaker.bad(generation, now_s, self._dice())

    def came(self, group: str, now_s: float) -> None:
        """Another producer of the group has come to this instance."""
        with self._lock:
            account = self._account(group, now_s)
            account.is_live_here = True
            account.breaker.newcomer()

    def went(self, group: str, now_s: float) -> None:
        """The last one has left."""
        with self._lock:
            self._account(group, now_s).is_live_here = False

    def hold_back(self, group: str, now_s: float, *, is_held_back: bool) -> None:
        """While no producer has room, owners had better not take numbers that cannot be sent."""
        with self._lock:
            self._account(group, now_s).is_held_back = is_held_back

    def forget_idle(self, now_s: float, *, idle_s: float, grant_s: float) -> list[str]:
        """Drop groups that nobody speaks of, and grants that were never used; gives their groups.

        Whoever takes permits uses them or gives them back within one step of the log. Were one
        lost by a bug all the same, the group must not be silent for ever.
        """
        leaking = []
        for group, account in list(self._accounts.items()):
            unused_s = now_s - account.touched_s
            if unused_s <= min(idle_s, grant_s):
                continue
            with self._lock:
                if account.granted_count and now_s - account.touched_s > grant_s:
                    account.breaker.unused(account.granted_count)
                    account.granted_count = 0
                    leaking.append(group)
                is_used = (
                    account.is_live_here
                    or account.is_held_back
                    or account.granted_count
                    or account.outstanding_count
                )
                if not is_used and now_s - account.touched_s > idle_s:
                    del self._accounts[group]
        return leaking

    def state(self, group: str, now_s: float) -> GroupPermits:
        """For people."""
        with self._lock:
            account = self._accounts.get(group)
            if account is None:
                return GroupPermits(0, 0, self._in_flight_max, BreakerState.CLOSED, None)
            return GroupPermits(
                account.granted_count,
                account.outstanding_count,
                int(account.window),
                account.breaker.state,
                account.breaker.opens_in_s(now_s),
            )

    def groups(self) -> list[str]:
        """All that are known."""
        return list(self._accounts)

    def _account(self, group: str, now_s: float) -> _Account:
        account = self._accounts.get(group)
        if account is None:
            breaker = Breaker(self._breaker_limits)
            account = _Account(breaker, now_s, float(self._in_flight_max))
            self._accounts[group] = account
        account.touched_s = now_s
        return account
