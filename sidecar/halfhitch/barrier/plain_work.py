"""What a block of the barrier for plain database drivers does with its connection."""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from halfhitch.barrier import guards, running
from halfhitch.barrier.rules import Question
from halfhitch.barrier.savepoints import ByStatements, InSetting
from halfhitch.client.marks import Mark
from halfhitch.client.values import LocalTransactionState

if TYPE_CHECKING:
    from halfhitch.barrier.dbapi import DbapiBarrier
    from halfhitch.client import Transaction


class _DroppedError(Exception):
    """Tells a pool that what was done on its connection is not to be committed."""


class ConnectionWork:
    """A block's connection, as `statement` wants it.

    It is let go of as soon as the local transaction has ended: the sidecar may take its time.
    """

    def __init__(self, barrier: "DbapiBarrier", messages: "Transaction", *, is_new: bool) -> None:
        self.messages = messages
        self.local: Any = None
        self.is_new = is_new
        self.is_open = False
        self._barrier = barrier
        self._id = messages.id
        self._home = guards.Home()
        self._savepoints = ByStatements(lambda: messages.send_count)
        self._in_setting: InSetting | None = None
        self._lease = ExitStack()

    def begin(self, mark: Mark) -> None:
        """An earlier attempt first."""
        barrier = self._barrier
        if not self.is_new:
            barrier.require_first(self._id)
        try:
            self.local = self._lease.enter_context(barrier.lease())
            guards.require_no_transaction(self.local)
            if guards.commits_at_once(self.local):  # there is none to be marked
                raise guards.block_commits_alone()
            self._one = barrier.one_transaction(self.local, self._savepoints.heard)
            self._in_setting = barrier.sent_in_setting(self.local)
            if self._in_setting is not None:
                self.messages.watch_sends(self._in_setting.sent)
            running.block(barrier.full_key(self._id), mark)
            self.is_open = True
        except BaseException:
            self._let_go()
            raise

    def use(self) -> None:
        """It is marked by now."""

    def close(self) -> None:
        """It is let go of by now."""

    @property
    def is_inherited(self) -> bool:
        """In a forked child."""
        return self._home.is_left(self._lease)

    def record(self) -> None:
        """After all the work."""
        self._barrier.require_transaction(self.local)
        self._one.require()
        self._savepoints.require()
        if self._in_setting is not None:
            self._in_setting.require()
        self._one.let_go()
        self._barrier.note(self.local, self._id)

    def commit(self, before: Callable[[], None]) -> None:
        """Rows and record."""
        before()
        self.local.commit()
        guards.require_no_transaction(self.local)
        self._lease.close()
        self.is_open = False

    def drop(self) -> None:
        """Roll back; the barrier may need the connection."""
        try:
            self._one.let_go()
            self.local.rollback()
        finally:
            self._let_go()

    def ask(self) -> LocalTransactionState:
        """Of the table."""
        return self._barrier.ask(Question(self._id, is_own=True))

    def _let_go(self) -> None:
        dropped = _DroppedError("the local transaction was rolled back")
        with suppress(_DroppedError):
            self._lease.__exit__(_DroppedError, dropped, None)
        self.is_open = False
