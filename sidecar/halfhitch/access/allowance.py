"""How many requests a second an identity may make.

Owns `Allowance`: a token bucket that holds one second of them, kept as one number (the generic cell
rate algorithm): the moment at which the bucket is full again. Pure: the moment is an argument, of
any clock, as long as all who ask have the same one.
"""

from collections.abc import Callable
from math import ceil
from typing import Final, NoReturn

from halfhitch.errors import TooManyRequests

#: What the bucket holds.
_BURST_S: Final = 1.0
#: Ends are never refused, so they may leave the bucket in debt; by no more than it holds, or a
#: crowd of ends would shut prepares out for longer than it lasted.
_DEBT_S: Final = 1.0
#: As many may be refused in a second as may be made, at once; then each refusal waits for its turn,
#: and no longer than this.
_HOLD_BACK_S_MAX: Final = 1.0
#: Sums of steps are not exact.
_ROUNDING_S: Final = 1e-9


def _tell_nobody() -> None:
    """Nobody counts."""


class Allowance:
    """Of one identity, over all its proofs, connections and doors. For one thread."""

    __slots__ = (
        "_ahead_s_max",
        "_full_s",
        "_name",
        "_over",
        "_refusals_s",
        "_step_s",
        "requests_s_max",
    )

    def __init__(
        self, name: str, requests_s_max: int, over: Callable[[], None] = _tell_nobody
    ) -> None:
        """`over` is told of every request that was refused."""
        self._name = name
        self._full_s = 0.0
        self._refusals_s = 0.0  # the same of refusals
        self._over = over
        self.change(requests_s_max)

    def change(self, requests_s_max: int) -> None:
        """So many from now on; what has been used counts on."""
        self.requests_s_max = requests_s_max
        self._step_s = 1.0 / requests_s_max
        #: So far the bucket may be from full, and one more still fits.
        self._ahead_s_max = _BURST_S - self._step_s + _ROUNDING_S

    def take(self, now_s: float, *, only_look: bool = False) -> None:
        """One request that may be refused. Raises TooManyRequests, which says when it would not be,
        and for how long the refusal is to be kept back.

        `only_look`: it comes again, with its body.
        """
        wait_s = self._full_s - now_s - self._ahead_s_max
        if wait_s > 0:
            self._refuse(now_s, wait_s)
        if not only_look:
            self._full_s = max(self._full_s, now_s) + self._step_s

    def spend(self, now_s: float) -> None:
        """One request that is never refused: it counts all the same."""
        full_s = max(self._full_s, now_s) + self._step_s
        self._full_s = min(full_s, max(self._full_s, now_s + _BURST_S + _DEBT_S))

    def _refuse(self, now_s: float, wait_s: float) -> NoReturn:
        self._over()
        seconds = ceil(wait_s)
        behind_s = max(self._refusals_s - now_s, 0.0) + self._step_s - _BURST_S
        hold_back_s = min(max(behind_s, 0.0), _HOLD_BACK_S_MAX)
        self._refusals_s = now_s + min(behind_s, hold_back_s) + _BURST_S
        error = TooManyRequests(
            f"identity {self._name!r} has made the {self.requests_s_max} requests that it may make "
            f"in a second; this one was not begun, try again in {seconds} s. Ends and answers to "
            "checks are taken all the same. To raise it: limits.requests_s_identity_max, or "
            "requests_s_max of this identity in the file of auth.identities_file",
            retry_after_s=seconds,
        )
        error.hold_back_s = hold_back_s
        raise error
