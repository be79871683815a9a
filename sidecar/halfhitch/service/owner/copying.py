"""Halves that the half topic does not take a second time.

Copies (of checks and renewals) share their steps with forwards until the half topic refuses one:
say its limit was lowered while a large half was pending. Kafka does not say which. From then on
copies have every other step to themselves, so that no forward fails with them, and of fewer and
fewer transactions, until one is alone in a step that is refused. That one rests, longer each time,
and all others go on. It is not asked about meanwhile: a number must be in the log before it is
delivered, or a crash would make more checks of it than are allowed.

Belongs to one owner and its thread; `trouble` may be read from any.
"""

import logging
from collections.abc import Iterable
from typing import Final

from halfhitch.core.ledger import Ledger, Step
from halfhitch.core.model import Identity
from halfhitch.core.transaction import Transaction
from halfhitch.ports import Clock, WriteResult

logger = logging.getLogger(__name__)

#: Between two tries of one that is refused; doubled each time.
_REST_MS: Final = 30_000
_REST_MS_MAX: Final = 900_000
#: Between two tries when the half topic takes nothing at all from here.
_PAUSE_S: Final = 1.0
_PAUSE_S_MAX: Final = 30.0
#: Steps grow again after each that is taken; one of so many is as good as any.
_ALL: Final = 1_000


class Copying:
    """See the module's text."""

    def __init__(self, partition: int, *, half_topic: str, clock: Clock) -> None:
        self._partition = partition
        self._half_topic = half_topic
        self._clock = clock
        self._count_max: int | None = None  # while it is looked for who is refused
        self._rests: dict[Identity, int] = {}  # bounded by what is undecided
        self._pause_s = self._closed_until_s = 0.0
        self._reason = ""
        #: In this turn nothing but copies is to be written.
        self.is_alone = False

    @property
    def trouble(self) -> str | None:
        """What keeps transactions from being checked, and what to do about it."""
        if self._pause_s:
            return f"no transaction can be checked: {self._reason}"
        if not self._rests:
            return None
        return (
            f"{len(self._rests)} undecided transactions are not checked, for they cannot be "
            f"appended anew ({self._reason}): raise max.message.bytes of {self._half_topic}"
        )

    def share(self, *, has_copies: bool) -> int | None:
        """How many transactions may be appended anew in this turn; None: as many as there are."""
        was_alone, self.is_alone = self.is_alone, False
        if self._clock.monotonic_s() < self._closed_until_s:
            return 0
        if self._count_max is None:
            return None
        self.is_alone = has_copies and not was_alone
        return self._count_max if self.is_alone else 0

    def refused(self, ledger: Ledger, step: Step, result: WriteResult) -> bool:
        """The step was aborted, as the ledger knows; True: for its copies, and others come next."""
        if not step.copies:
            return False
        if self._half_topic in result.closed:
            self._reason = result.closed[self._half_topic]
            self._pause_s = min(_PAUSE_S_MAX, 2 * self._pause_s or _PAUSE_S)
            self._closed_until_s = self._clock.monotonic_s() + self._pause_s
            return True
        if self._half_topic not in result.refusing:
            if result.refusing and result.is_ours:
                self._count_max = max(
                    1, len(step.copies) // 2
                )  # the op topic, perhaps, their marks
            return False
        self._reason = result.refusing[self._half_topic]
        undecided = [o.transaction for o in step.copies if o.transaction.resolution is None]
        if len(step.copies) > 1:
            self._count_max = max(1, len(undecided) // 2)  # renewals.py puts the decided ones off
        elif undecided:
            self._let_rest(ledger, undecided[0])
        return True

    def _let_rest(self, ledger: Ledger, transaction: Transaction) -> None:
        identity = transaction.identity
        rest_ms = min(_REST_MS_MAX, 2 * self._rests.get(identity, _REST_MS // 2))
        self._rests[identity] = rest_ms
        ledger.checks.rest(transaction, rest_ms)
        logger.warning(
            "half partition %d: transaction %s of group %s is not checked for %d s, for it cannot "
            "be appended anew (%s): raise max.message.bytes of %s",
            self._partition,
            identity[1],
            identity[0],
            rest_ms // 1_000,
            self._reason,
            self._half_topic,
            extra={"action": "copy_refused"},
        )

    def succeeded(self, step: Step) -> None:
        """The step is committed, and its copies with it."""
        self.forget(order.transaction.identity for order in step.copies)
        self._pause_s = self._closed_until_s = 0.0
        if self._count_max is not None:
            self._count_max *= 2
            if self._count_max > _ALL:
                self._count_max = None

    def forget(self, identities: Iterable[Identity]) -> None:
        """Of these nothing has to be appended anew any more."""
        if self._rests:
            for identity in identities:
                self._rests.pop(identity, None)
