"""The thread that works on one owned half partition, and what happens when that goes wrong.

A step that was surely aborted is tried again after a pause, with the ledger as it is. Anything else
(an outcome nobody knows, a log that cannot be read, a bug) throws ledger, reader and writer away
and takes the partition over anew: the logs are the truth.

Trying again without reading again is sound only because nobody but the partition's owner can commit
a step. A worker that hangs and is left behind would be able to, for its instance is still a member:
  1. A's worker hangs while it fences anew; the partition goes to B, who fences and reads the logs;
  2. A's fence succeeds after all (B's producer is outdated), its step carries the generation that A
     has now, and is committed;
  3. B's next step fails, B fences anew and writes the same forwards a second time.
So whoever is left behind is given no generation any more: `abandon`, before the partition goes.

A record of a newer release is told to `on_newer`, who sees to it that the partition goes to an
instance that can read it.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

from halfhitch.errors import HalfHitchError
from halfhitch.service.api import PartitionPhase, PartitionState
from halfhitch.service.owner.feeding import NewerReleaseError
from halfhitch.service.owner.numbers import CheckNumbers, OwnerNumbers
from halfhitch.service.owner.turn import PartitionOwner, StepFailedError

logger = logging.getLogger(__name__)

_TURN_WAIT_S: Final = 0.1
#: Where nothing is under way, and nothing has come for so many turns. A record ends the wait, so
#: only a stop notices it; and each turn of each partition costs an idle sidecar a wake-up.
_REST_WAIT_S: Final = 0.5
_REST_AFTER_TURNS: Final = 20
_PAUSE_S: Final = 0.1
_PAUSE_MAX_S: Final = 5.0


class PartitionWorker:
    """One thread; `make_owner` gives a fresh owner for each takeover.

    It is handed a question that the owner's writer must ask whenever it takes the group's
    generation: may this worker still write?
    """

    def __init__(
        self,
        partition: int,
        make_owner: Callable[[Callable[[], bool]], PartitionOwner],
        *,
        on_newer: Callable[[NewerReleaseError], None] = lambda _: None,
    ) -> None:
        self.partition = partition
        self._on_newer = on_newer
        self._make_owner = make_owner
        self._owner: PartitionOwner | None = None
        self._stopping = threading.Event()
        self._abandoned = threading.Event()
        self._phase = PartitionPhase.TAKING_OVER
        self._trouble: str | None = None
        self._pause_s = _PAUSE_S
        self._thread = threading.Thread(target=self._run, name=f"half-{partition}", daemon=True)

    def start(self) -> None:
        """Begin with the takeover."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to finish its turn; returns at once."""
        self._stopping.set()

    def join(self, wait_s: float) -> bool:
        """Wait for the end; False when a call hangs beyond `wait_s`."""
        self._thread.join(wait_s)
        return not self._thread.is_alive()

    def abandon(self) -> None:
        """It did not end in time, and its partition is given away: it may write nothing more."""
        self._abandoned.set()

    def _may_write(self) -> bool:
        return not self._abandoned.is_set()

    @property
    def owner(self) -> PartitionOwner | None:
        """The owner while it is working, for questions from other threads."""
        owner = self._owner
        return owner if owner is not None and owner.is_working else None

    def state(self) -> PartitionState:
        """For people and dashboards."""
        owner = self._owner
        numbers = OwnerNumbers() if owner is None else owner.numbers()
        checks = CheckNumbers() if owner is None else owner.checkback.numbers
        state = PartitionState(
            partition=self.partition,
            phase=self._phase,
            pending_count=numbers.pending_count,
            decided_count=numbers.decided_count,
            early_count=numbers.early_count,
            finished_count=numbers.finished_count,
            half_watermark=numbers.half_watermark,
            half_position=numbers.half_position,
            op_watermark=numbers.op_watermark,
            op_position=numbers.op_position,
            trouble=self._trouble_of(owner),
            due_count=checks.due_count,
            checking_count=checks.checking_count,
            oldest_age_s=checks.oldest_age_s,
            pending_by_group=dict(checks.pending_by_group),
            oldest_age_by_group=dict(checks.oldest_age_by_group),
        )
        if owner is not None:
            state.waiting_by_topic = owner.waiting_by_topic
            state.waiting_count = owner.waiting_count
            state.lag_s = owner.lag.seconds()
            state.troubles = owner.troubles
            state.clock_ahead_s = owner.checkback.calendar.ahead_s
        return state

    def _trouble_of(self, owner: PartitionOwner | None) -> str | None:
        held = None if owner is None else owner.waits_for
        return self._trouble if held is None else held

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._phase = PartitionPhase.TAKING_OVER
            owner = None
            try:
                owner = self._owner = self._make_owner(self._may_write)
                owner.take_over()
                self._phase = PartitionPhase.WORKING
                self._work(owner)
            except NewerReleaseError as error:
                self._failed(error, "newer_release")
                self._on_newer(error)
            except HalfHitchError as error:
                self._failed(error, "partition_failed")
            except Exception as error:  # noqa: BLE001 - a bug must not end the partition silently
                self._failed(error, "partition_bug")
            finally:
                self._owner = None
                if owner is not None:
                    owner.close()
            self._stopping.wait(self._pause_s)
            self._pause_s = min(self._pause_s * 2, _PAUSE_MAX_S)
        self._phase = PartitionPhase.STOPPED

    def _work(self, owner: PartitionOwner) -> None:
        wait_s = _TURN_WAIT_S
        empty_count = 0
        while not self._stopping.is_set():
            if owner.pace.rest_s:
                self._stopping.wait(owner.pace.rest_s)
            try:
                empty_count = 0 if owner.turn(wait_s) else empty_count + 1
                wait_s = _wait_s(owner, empty_count)
            except StepFailedError as error:
                self._trouble = str(error)
                logger.warning(
                    "half partition %d: %s; trying again",
                    self.partition,
                    error,
                    extra={"action": "step_failed"},
                )
                self._stopping.wait(self._pause_s)
                self._pause_s = min(self._pause_s * 2, _PAUSE_MAX_S)
                continue
            self._trouble = None
            self._pause_s = _PAUSE_S

    def _failed(self, error: Exception, action: str) -> None:
        if self._stopping.is_set():
            return  # what a stop interrupts is no trouble
        self._phase = PartitionPhase.FAILED
        self._trouble = str(error)
        known = isinstance(error, HalfHitchError)
        logger.log(
            logging.WARNING if known else logging.ERROR,
            "half partition %d stopped: %s; taking it over again",
            self.partition,
            error,
            exc_info=None if known else error,
            extra={"action": action},
        )


def _wait_s(owner: PartitionOwner, empty_count: int) -> float:
    """How long the next turn may wait for a record, after so many that had nothing to do."""
    if empty_count == 0:
        return 0.0
    if empty_count < _REST_AFTER_TURNS or owner.waiting_count:
        return _TURN_WAIT_S
    numbers = owner.numbers()
    is_busy = numbers.pending_count or numbers.decided_count or numbers.early_count
    return _TURN_WAIT_S if is_busy else _REST_WAIT_S
