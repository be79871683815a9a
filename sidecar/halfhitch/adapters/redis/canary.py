"""A counter in Redis that tells whether Redis still holds what we wrote last.

Each batch of writes begins and ends with GETSET of the canary to the next number, so the counter
has seen every write that Redis has seen. What the two answers say:

* the first finds the last number we know to be written: nothing is lost. After a batch whose
  outcome is unknown any number of that batch is as good.
* it finds nothing: Redis was wiped. A lower number, or one of an earlier process: an old dump, or
  a replica that had not seen everything.
* the second does not find the first's number: something came in between, such as an old batch of
  ours that lay in a paused server's buffer and has now overwritten newer things.

Owns the numbers and the judgement; talks to nobody.
"""

import re
from typing import Final

WIPED: Final = "wiped"
OLD: Final = "old"
GARBAGE: Final = "garbage"

_VALUE: Final = re.compile(rb"([0-9a-f]{1,32}):([0-9]{1,18})")


class Canary:
    """One counter; `nonce` marks the life of this process."""

    def __init__(self, nonce: str) -> None:
        self._nonce = nonce
        self._last = 0  # handed out last
        self._confirmed: int | None = None  # surely written last
        self._last_before = 0  # handed out last before the present batch

    def begin(self) -> tuple[str, str]:
        """Values for the beginning and the end of a batch."""
        self._last_before = self._last
        self._last += 2
        return f"{self._nonce}:{self._last - 1}", f"{self._nonce}:{self._last}"

    def judge(self, at_start: bytes | None, at_end: bytes | None) -> str | None:
        """Why what Redis held is not ours any more; None when it is. Both answers of one batch."""
        reason = self._judge_start(at_start)
        if reason is None and at_end != f"{self._nonce}:{self._last - 1}".encode():
            reason = WIPED if at_end is None else OLD
        self._confirmed = self._last
        return reason

    def _judge_start(self, found: bytes | None) -> str | None:
        if self._confirmed is None:
            return None  # nothing was ours yet
        if found is None:
            return WIPED
        match = _VALUE.fullmatch(found)
        if match is None:
            return GARBAGE
        is_ours = match[1] == self._nonce.encode()
        if is_ours and self._confirmed <= int(match[2]) <= self._last_before:
            return None
        return OLD
