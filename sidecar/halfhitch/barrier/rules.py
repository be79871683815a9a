"""What a check may be answered, and what makes sure of it. No I/O, no clock.

The order of the steps is the promise: COMMIT and ROLLBACK are only ever read from a committed row
of the very transaction, ROLLBACK from one that says fenced. That a row is missing decides nothing,
for a local transaction may be about to commit it. Whatever goes wrong is UNKNOWN.
"""

import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from halfhitch.barrier.errors import refusal
from halfhitch.barrier.table import COMMITTED, DEFAULT_TABLE, FENCED, check_table
from halfhitch.client import given, reasons, why
from halfhitch.client.values import LocalTransactionState
from halfhitch.errors import BackendError, ConfigurationError, InvalidRequest, RequestError

log = logging.getLogger("halfhitch.barrier")

DAY_S: Final = 86_400
KEEP_S: Final = 7 * DAY_S
#: A local transaction may have begun, and so dated its row, before its messages were prepared.
_BEGAN_EARLIER_S: Final = 3_600

_GROUNDS: Final[Mapping[LocalTransactionState, str]] = {
    LocalTransactionState.COMMIT: "the barrier has the row",
    LocalTransactionState.ROLLBACK: "the barrier has no row, and has fenced it",
}
_STATES: Final[Mapping[str, LocalTransactionState]] = {
    COMMITTED: LocalTransactionState.COMMIT,
    FENCED: LocalTransactionState.ROLLBACK,
}
_NO_TABLE_WORDS: Final = ("no such table", "does not exist", "doesn't exist")


class Checked(Protocol):
    """What is asked about: a `Check`, a listener's `Message`, anything with an id."""

    @property
    def transaction_id(self) -> str | None:
        """Whose local transaction."""


class Undecidable(Exception):
    """The table tells neither; says why, in a line that `halfhitch tx explain` shows."""

    def __init__(
        self, said: str, *, action: str = "barrier_unknown", level: int = logging.WARNING
    ) -> None:
        super().__init__(said)
        self.action = action
        self.level = level


@dataclass(frozen=True, slots=True)
class Question:
    """What a check asks of the table."""

    transaction_id: str
    age_s: float | None = None
    #: When its first message was stored: compared with the database's clock.
    born_ms: int | None = None
    #: Asked by the process itself about its own commit: there is nobody to be patient with.
    is_own: bool = False


class Notes(Protocol):
    """The table, as one check sees it. Every call is a database transaction of its own."""

    def read(self, transaction_id: str) -> str | None:
        """The outcome of a committed row."""

    def fence(self, transaction_id: str, born_ms: int | None) -> None:
        """Commit a fence unless a row stands there, or may have been purged (see `born_ms`)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """A barrier's settings and what follows from them."""

    group: str
    table: str = DEFAULT_TABLE
    fence_after_s: float = 0.0
    keep_s: float = KEEP_S
    wait_s: float = 2.0

    def __post_init__(self) -> None:
        """Raises ConfigurationError."""
        check_table(self.table)
        if not self.group:
            raise ConfigurationError(
                f"group is {self.group!r}: give the barrier the producer group of its producer,"
                ' such as Barrier(engine, "orders")'
            )
        wrong = given.why_not_whole(self.group, "group")
        if wrong is not None:
            raise ConfigurationError(wrong)
        for name, least in (("fence_after_s", 0.0), ("keep_s", DAY_S), ("wait_s", 0.05)):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= least):
                raise ConfigurationError(f"{name} is {value}: it takes at least {least:g}")
        if self.wait_s > 60:
            raise ConfigurationError(f"wait_s is {self.wait_s}: a check must not take a minute")
        if self.fence_after_s >= self.keep_s - _BEGAN_EARLIER_S:
            raise ConfigurationError(
                f"fence_after_s is {self.fence_after_s:g}: rows are kept for {self.keep_s:g} s"
                " (keep_s), and nothing is fenced when they may be gone"
            )

    @property
    def fence_age_ms_max(self) -> int:
        """Nothing that is so old is fenced: its row may have been purged."""
        return math.floor((self.keep_s - _BEGAN_EARLIER_S) * 1000)

    def require_producer(self, producer: object, *, is_awaited: bool) -> None:
        """Raises ConfigurationError for one of another group, or that is not awaited as this is.

        A blocking block would commit the rows, and the coroutine of the messages' commit not run.
        """
        if hasattr(type(producer), "__enter__" if is_awaited else "__aenter__"):
            wanted = "an AsyncTransactionProducer" if is_awaited else "a TransactionProducer"
            other = "Barrier or DbapiBarrier" if is_awaited else "AsyncBarrier"
            raise ConfigurationError(
                f"this barrier takes {wanted}, not {type(producer).__name__} (for that use {other})"
            )
        group = getattr(producer, "group", self.group)
        if group != self.group:
            raise ConfigurationError(
                f"the producer belongs to group {group!r} and this barrier to {self.group!r}: the"
                " record would not be found by the checks of the producer's group. Give each"
                " producer the barrier of its own group"
            )

    def question(self, check: object) -> Question | None:
        """None, with a line in the log, when this barrier cannot answer it."""
        transaction_id = getattr(check, "transaction_id", None)
        if not isinstance(transaction_id, str) or not transaction_id:
            log.error(
                "a check without a transaction id (%s) is answered UNKNOWN: give `check` what the"
                " producer hands over",
                type(check).__name__,
                extra={"action": "barrier_check_invalid"},
            )
            why.note(Undecidable("the barrier was given a check without a transaction id"))
            return None
        group = getattr(check, "producer_group", None)
        if group is not None and group != self.group:
            log.error(
                "transaction %s of group %s is answered UNKNOWN: this barrier belongs to group %s;"
                " give each producer the barrier of its own group",
                transaction_id,
                group,
                self.group,
                extra={"action": "barrier_wrong_group"},
            )
            why.note(
                Undecidable(
                    f"the barrier that was asked belongs to group {self.group}, the transaction to"
                    f" {group}: give each producer the barrier of its own group"
                )
            )
            return None
        age_s = getattr(check, "age_s", None)
        known = isinstance(age_s, int | float) and math.isfinite(age_s)
        born_ms = getattr(check, "born_ms", None)
        return Question(
            transaction_id,
            age_s if known else None,
            born_ms if type(born_ms) is int and born_ms > 0 else None,
        )

    def decide(self, notes: Notes, question: Question) -> LocalTransactionState:
        """Answer from the table, fencing what is not there. Raises Undecidable."""
        transaction_id = question.transaction_id
        outcome = notes.read(transaction_id)
        if outcome is None:
            self._require_fenceable(question)
            notes.fence(transaction_id, question.born_ms)
            # From here on a local commit of this id fails, or has come before and is read now.
            outcome = notes.read(transaction_id)
            if outcome is None and question.born_ms is not None:
                raise self._too_old(question)
        state = _STATES.get(outcome or "")
        if state is None:
            found = "no row, nor a fence that was just written" if outcome is None else "a row"
            raise Undecidable(
                f"{self.table} has {found} that is neither {COMMITTED} nor {FENCED}: look for a"
                " trigger, or for what else writes there"
            )
        return state

    def told(self, state: LocalTransactionState) -> LocalTransactionState:
        """The answer to a check, with the grounds of it for the producer's log."""
        why.note_grounds(_GROUNDS.get(state, ""))
        return state

    def _require_fenceable(self, question: Question) -> None:
        age_s = question.age_s
        if question.is_own or age_s is None:
            return
        if age_s * 1000 >= self.fence_age_ms_max:
            raise self._too_old(question)
        if age_s < self.fence_after_s:
            raise Undecidable(
                f"no row in {self.table} yet, and {age_s:.0f} s old: fenced after"
                f" {self.fence_after_s:g} s (fence_after_s)",
                action="barrier_patient",
                level=logging.INFO,
            )

    def _too_old(self, question: Question) -> "Undecidable":
        told = "" if question.age_s is None else f", {question.age_s:.0f} s,"
        return Undecidable(
            f"no row in {self.table}, and so old{told} that it may have been purged (keep_s:"
            f" {self.keep_s:.0f} s): look for its rows, then `halfhitch tx commit` or `rollback`",
            action="barrier_too_old",
        )

    def require_first(self, notes: Notes, transaction_id: str) -> None:
        """Before anything is sent under an id of the program's own; fences nothing.

        What an earlier attempt has sent, the coordinator forgets. Of what were sent then under its
        id, a check would find that attempt's row: it would be committed a second time.

        Raises TransactionRecordedTwice, TransactionFenced.
        """
        outcome = notes.read(transaction_id)
        if outcome is not None:
            raise refusal(transaction_id, outcome)

    @contextmanager
    def first_or_unread(self, transaction_id: str) -> Iterator[None]:
        """Around `require_first` and its connection: an error says that nothing was begun."""
        try:
            yield
        except RequestError:
            raise
        except Undecidable as unsure:
            raise BackendError(
                f"{unsure}. So whether an earlier attempt {transaction_id} has committed is not"
                " known, and this one was not begun: nothing was sent. Try again with the same id"
            ) from unsure
        except Exception as error:
            self.explain(error)
            error.add_note(
                f"Half Hitch: whether an earlier attempt {transaction_id} has committed could not"
                " be found out, so this one was not begun: nothing was sent. Try again with the"
                " same id. The question takes one more connection for a moment, so a pool that is"
                " used up can be the reason: give it one more than those that are held meanwhile"
            )
            raise

    def failed(self, question: Question, error: Exception) -> LocalTransactionState:
        """The database gave no answer, or none that decides; that is all that is known."""
        why.note(error)
        if isinstance(error, Undecidable):
            words = "transaction %s is answered UNKNOWN: %s"
            extra = {"action": error.action}
            log.log(error.level, words, question.transaction_id, error, extra=extra)
            return LocalTransactionState.UNKNOWN
        text = reasons.without_appendix(" ".join(str(error).split()))
        hint = ""
        if self.is_missing_table(error):
            hint = (
                f". The table {self.table} is missing: create it with Barrier.create() or with what"
                " halfhitch.barrier.ddl(...) prints"
            )
        log.warning(
            "transaction %s is answered UNKNOWN, for the database gave no answer (%s: %s)%s",
            question.transaction_id,
            type(error).__name__,
            text[:300],
            hint,
            extra={"action": "barrier_unknown"},
        )
        return LocalTransactionState.UNKNOWN

    def is_missing_table(self, error: BaseException) -> bool:
        """For words in messages only; nothing is decided by it."""
        text = str(error)
        return self.table in text and any(word in text for word in _NO_TABLE_WORDS)

    def explain(self, error: BaseException) -> None:
        """Say in a driver's error what to do about it."""
        if self.is_missing_table(error):
            error.add_note(
                f"Half Hitch: create the table {self.table} with Barrier.create() or with what"
                " halfhitch.barrier.ddl(...) prints"
            )

    def key(self, transaction_id: object) -> tuple[str, str]:
        """The primary key. Raises InvalidRequest."""
        if not isinstance(transaction_id, str) or not transaction_id:
            raise InvalidRequest(
                f"transaction id {transaction_id!r}: record takes the id as text, such as tx.id"
            )
        # An Enum's member, too, which drivers and dictionaries would take for another text.
        return given.text(self.group, "group"), given.transaction_id(transaction_id)

    def purge_age_s(self, older_than_s: float | None, batch_count: int, *, force: bool) -> int:
        """How old rows must be to go. Raises ConfigurationError."""
        if batch_count < 1:
            raise ConfigurationError(f"batch_count is {batch_count}: it takes at least 1")
        if older_than_s is None:
            return math.ceil(self.keep_s)
        if not math.isfinite(older_than_s) or older_than_s < 0:
            raise ConfigurationError(f"older_than_s is {older_than_s}: give an age in seconds")
        if older_than_s < self.keep_s and not force:
            raise ConfigurationError(
                f"older_than_s is {older_than_s:g}, less than the {self.keep_s:g} s that rows are"
                " kept (keep_s): a check that comes later would take a committed transaction for"
                " one that never was, and roll its messages back. Purge older rows, or say"
                " force=True if no message of this group can be undecided or parked any more"
            )
        return math.ceil(older_than_s)
